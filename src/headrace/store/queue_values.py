"""Values of a queue as a whole: how much it may hold, and where else its jobs can go."""

from __future__ import annotations

import msgspec

from headrace.core.job.ids import JobId


class Rescheduling(msgspec.Struct, frozen=True):
    """Another time, priority or queue for jobs; what is None or empty stays as it was."""

    delay_ms: int | None = None
    """0 for now."""
    at_ms: int | None = None
    priority: int | None = None
    queue: str = ""

    @property
    def has_time(self) -> bool:
        return self.delay_ms is not None or self.at_ms is not None


class QueueBound(msgspec.Struct, frozen=True):
    """How many jobs a queue may hold that have not ended: waiting, scheduled, blocked and running
    ones. New ones beyond that are refused or, with `drops_oldest`, take the place of jobs that wait
    for a worker: those of the lowest priority, and of these the oldest, are cancelled."""

    most: int
    drops_oldest: bool = False


NO_ROOM: JobId = b""
"""Stands in the answer of `append` for a job that was refused, instead of an id."""
