"""How a worker ended."""

from __future__ import annotations

import msgspec


class WorkerOutcome(msgspec.Struct, frozen=True):
    """How a worker ended. `errors` counts outcomes that could not be written, `crashes` unexpected
    errors inside the worker, `timed_out` says that jobs were cut short by the drain deadline or a
    second signal, `lost_leases` counts outcomes that came too late. Failed jobs do not count.
    `unhandled_events` counts events that are not retried although their handler failed or was not
    called: acknowledged on receipt, broadcast, or passed to `on_dead`. `left` counts what a worker
    with `burst=True` left in its queues: scheduled for later, blocked, or paused."""

    errors: int = 0
    """How many outcomes could not be written."""
    crashes: int = 0
    """How many unexpected errors there were inside the worker."""
    timed_out: bool = False
    """Whether jobs were cut short, by the drain deadline or a second signal."""
    lost_leases: int = 0
    """How many outcomes came too late."""
    unhandled_events: int = 0
    """How many events are not retried although their handler failed or was not called: acknowledged
    on receipt, broadcast, or passed to `on_dead`."""
    left: int = 0
    """How many jobs and events a worker with `burst=True` left in its queues: scheduled for later,
    blocked, or paused."""

    def __add__(self, other: object) -> WorkerOutcome:
        if not isinstance(other, WorkerOutcome):
            return NotImplemented
        return WorkerOutcome(
            errors=self.errors + other.errors,
            crashes=self.crashes + other.crashes,
            timed_out=self.timed_out or other.timed_out,
            lost_leases=self.lost_leases + other.lost_leases,
            unhandled_events=self.unhandled_events + other.unhandled_events,
            left=self.left + other.left,
        )

    def __str__(self) -> str:
        counts = {
            "outcomes that could not be written": self.errors,
            "crashes inside the worker": self.crashes,
            "lost leases": self.lost_leases,
            "unhandled events": self.unhandled_events,
            "left for later": self.left,
        }
        said = [f"{what}: {count:,}" for what, count in counts.items() if count]
        return ", ".join([*(["jobs were cut short"] if self.timed_out else []), *said]) or "clean"

    @property
    def exit_code(self) -> int:
        if self.timed_out:
            return 3
        if self.crashes:
            return 2
        return 1 if self.errors else 0
