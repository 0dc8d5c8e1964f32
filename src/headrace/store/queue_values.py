"""Values of a queue as a whole: how much it may hold, and where else its jobs can go."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.task.queue_settings import QueueSettings


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
    for a worker: those of the lowest priority, and of these the oldest, are cancelled; for a job of
    a flow none of the same flow. Of each key,
    at most `most_per_key` may be blocked behind others of the key; a new one that would be blocked
    too is refused."""

    most: int = 0
    """0 for any number."""
    drops_oldest: bool = False
    most_per_key: int = 0
    """0 for any number."""

    @classmethod
    def of(cls, settings: QueueSettings | None, per_key: int | None) -> QueueBound | None:
        """The bound of a queue as it is declared, with what the app says about keys; None if it has
        none."""
        most, drops = 0, False
        if settings is not None:
            most, drops = settings.max_length or 0, settings.overflow == "drop_oldest"
            per_key = settings.max_pending_per_key or per_key
        return cls(most, drops, per_key or 0) if most or per_key else None

    def concerns(self, parcels: Sequence[Parcel]) -> bool:
        """Whether any of these jobs could be refused."""
        return bool(self.most) or any(parcel.constraints.lane for parcel in parcels)


NO_ROOM: JobId = b""
"""Stands in the answer of `append` for a job that was refused, instead of an id."""
KEY_FULL: JobId = b"-"
"""Stands for a job that was refused because too many of its key wait. No id is like this."""
REFUSED = frozenset((NO_ROOM, KEY_FULL))
