"""What an app declares about a queue."""

from __future__ import annotations

import msgspec

from headrace.core.bounds import Overflow, check_count, check_overflow
from headrace.core.job.constraints import QUEUE_LIMIT, Limit
from headrace.core.queue_names import check_queue
from headrace.core.task.rate import Rate
from headrace.errors import ConfigError


class QueueSettings(msgspec.Struct, frozen=True):
    """What `app.queue(...)` sets for a queue."""

    name: str
    limit: Limit | None = None
    """How often its jobs may start."""
    max_length: int | None = None
    """How many jobs it may hold that have not ended."""
    overflow: Overflow = "reject"
    concurrency: int | None = None
    """How many of its jobs run at a time, on all workers together."""
    max_pending_per_key: int | None = None
    """How many jobs of one key may wait behind others of it."""

    @classmethod
    def of(
        cls,
        name: str,
        rate: object = None,
        burst: object = None,
        max_length: object = None,
        overflow: Overflow = "reject",
        concurrency: object = None,
        max_pending_per_key: object = None,
    ) -> QueueSettings:
        check_queue("queue name", name)
        where = f"queue {name!r}: "
        if burst is not None and rate is None:
            raise ConfigError(f"{where}burst= needs rate=")
        most = None if max_length is None else check_count(f"{where}max_length", max_length)
        check_overflow(where, overflow, most, "queue")
        limit = None if rate is None else Rate.of(where, rate, burst).limit(QUEUE_LIMIT)
        at_once = None if concurrency is None else check_count(f"{where}concurrency", concurrency)
        per_key = max_pending_per_key
        if per_key is not None:
            per_key = check_count(f"{where}max_pending_per_key", per_key)
        return cls(name, limit, most, overflow, at_once, per_key)

    @property
    def says_anything(self) -> bool:
        said = (self.limit, self.max_length, self.concurrency, self.max_pending_per_key)
        return any(each is not None for each in said)
