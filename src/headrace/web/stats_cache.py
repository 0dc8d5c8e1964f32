"""Counters of the last minutes, cached: each minute that is over is read once."""

from __future__ import annotations

import time
from asyncio import Lock
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.admin.stats_sum import StatsSum

if TYPE_CHECKING:
    from headrace.admin import Admin, MinuteStats

# The last minutes are read again: the nodes of a cluster have different clocks.
_OPEN = 2
_KEPT = 24 * 60
QUEUES_COUNTED = 1_000
"""How many queues the sums over all of them cover."""
_QUEUES_KEPT = 50
# Pages that many users have open share one read.
_MAX_AGE = 0.8


@dataclass(frozen=True, slots=True)
class Minutes:
    """The last minutes up to the running one, with their sums."""

    last: int
    """The running minute, counted from 1970."""
    sums: list[StatsSum]
    recent: dict[str, StatsSum]
    """By queue: the sum of the running minute and the one before."""
    tasks: dict[str, StatsSum]
    """By task, in all of these minutes."""
    recent_seconds: float

    def rate(self, count: float) -> float:
        """A count of `recent`, per minute."""
        return count * 60 / self.recent_seconds

    @property
    def now(self) -> StatsSum:
        """The sum of `recent` over all queues."""
        return StatsSum.of(self.recent.values())


class StatsCache:
    """The counters of one queue, or of all."""

    def __init__(self, admin: Admin, queue: str | None) -> None:
        self._admin = admin
        self._queue = queue
        self._sums: dict[int, dict[str, StatsSum]] = {}
        self._recent: dict[int, dict[str, StatsSum]] = {}
        self._since: int | None = None
        self._read_at = -_MAX_AGE
        self._now = 0.0
        """The store's time of the last read."""
        self._lock = Lock()

    async def minutes(self, count: int, task: str | None = None) -> Minutes:
        """The last `count` minutes, of all tasks or of one. One call to the store, for those that
        are not cached."""
        async with self._lock:
            seconds = await self._caught_up(count)
        now = int(seconds // 60)
        last = max([now, *(minute for minute in self._sums if minute <= now + 1)])
        wanted = range(last - count + 1, last + 1)
        tasks: dict[str, StatsSum] = {}
        for minute in wanted:
            for name, part in self._sums.get(minute, {}).items():
                tasks.setdefault(name, StatsSum()).add(part)
        sums = [StatsSum.of(self._parts(minute, task)) for minute in wanted]
        return Minutes(last, sums, self._recently(last), tasks, 60 + max(1.0, seconds % 60))

    def _parts(self, minute: int, task: str | None) -> Iterable[StatsSum]:
        known = self._sums.get(minute, {})
        if task is None:
            return known.values()
        return [known[task]] if task in known else []

    def _recently(self, last: int) -> dict[str, StatsSum]:
        found: dict[str, StatsSum] = {}
        for minute in (last - 1, last):
            for queue, part in self._recent.get(minute, {}).items():
                found.setdefault(queue, StatsSum()).add(part)
        return found

    async def _caught_up(self, count: int) -> float:
        """Read those of the last `count` minutes that are missing; returns the store's time."""
        age = time.monotonic() - self._read_at
        if age < _MAX_AGE and self._knows(int((self._now + age) // 60) - count + 1):
            return self._now + age
        asked = await self._admin.now()
        now = int(asked.timestamp() // 60)
        since = now - count + 1
        known = self._knows(since)
        reached = max(self._sums, default=now) if known else since
        first = max(since, min(reached, now) - _OPEN) if known else since
        minutes, most = now - first + 1, QUEUES_COUNTED
        rows = await self._admin.stats(minutes, self._queue, now=asked, most=most)
        self._read_at, self._now = time.monotonic(), asked.timestamp()
        if not known or first > reached:
            self._since = first
        self._enter(rows, first, now)
        return self._now

    def _knows(self, since: int) -> bool:
        return self._since is not None and self._since <= since

    def _enter(self, rows: Iterable[MinuteStats], first: int, now: int) -> None:
        for minute in [minute for minute in self._sums if minute >= first or minute < now - _KEPT]:
            del self._sums[minute]
        self._recent = {}
        for row in rows:
            minute = int(row.minute.timestamp()) // 60
            self._sums.setdefault(minute, {}).setdefault(row.task, StatsSum()).add(row)
            if minute >= now - _OPEN:
                self._recent.setdefault(minute, {}).setdefault(row.queue, StatsSum()).add(row)
        # Says how far was read, also if nothing was counted.
        self._sums.setdefault(now, {})


class StatsCaches:
    """A cache for all queues together, and one for each queue that was viewed lately."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._caches: dict[str | None, StatsCache] = {}

    def of(self, queue: str | None = None) -> StatsCache:
        cache = self._caches.pop(queue, None) or StatsCache(self._admin, queue)
        # Moved to the end: the first is the least recently used.
        self._caches[queue] = cache
        if len(self._caches) > _QUEUES_KEPT:
            del self._caches[next(iter(self._caches))]
        return cache


def minute_text(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%H:%M")
