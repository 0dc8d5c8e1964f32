"""How a worker ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerOutcome:
    """How a worker ended. `errors` counts outcomes that could not be written, `crashes` unexpected
    errors inside the worker, `timed_out` says that jobs were cut short by the drain deadline or a
    second signal; `lost_leases` counts outcomes that came too late. Failed jobs are none of them.
    """

    errors: int = 0
    crashes: int = 0
    timed_out: bool = False
    lost_leases: int = 0

    @property
    def exit_code(self) -> int:
        if self.timed_out:
            return 3
        if self.crashes:
            return 2
        return 1 if self.errors else 0
