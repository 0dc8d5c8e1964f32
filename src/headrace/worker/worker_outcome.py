"""How a worker ended."""

from __future__ import annotations

import msgspec


class WorkerOutcome(msgspec.Struct, frozen=True):
    """How a worker ended. `errors` counts outcomes that could not be written, `crashes` unexpected
    errors inside the worker, `timed_out` says that jobs were cut short by the drain deadline or a
    second signal, `lost_leases` counts outcomes that came too late. Failed jobs do not count.
    `failed` counts events that are not retried although their handler failed or was not called:
    acknowledged on receipt, broadcast, or passed to `on_dead`."""

    errors: int = 0
    crashes: int = 0
    timed_out: bool = False
    lost_leases: int = 0
    failed: int = 0

    def __add__(self, other: object) -> WorkerOutcome:
        if not isinstance(other, WorkerOutcome):
            return NotImplemented
        return WorkerOutcome(
            errors=self.errors + other.errors,
            crashes=self.crashes + other.crashes,
            timed_out=self.timed_out or other.timed_out,
            lost_leases=self.lost_leases + other.lost_leases,
            failed=self.failed + other.failed,
        )

    @property
    def exit_code(self) -> int:
        if self.timed_out:
            return 3
        if self.crashes:
            return 2
        return 1 if self.errors else 0
