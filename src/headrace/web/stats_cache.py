"""What was counted in the last minutes, without asking again for those that are over."""

from __future__ import annotations

import time
from asyncio import Lock
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.admin.histograms import percentile_of

if TYPE_CHECKING:
    from headrace.admin import Admin, MinuteStats

# Those within it are asked for again: the nodes of a cluster have a clock each.
_OPEN = 2
_KEPT = 24 * 60
_QUEUES_KEPT = 50
# Pages that many people have open at the same time share one look.
_MAX_AGE = 0.8
FAILED = ("retry", "dead")


@dataclass(slots=True)
class StatsSum:
    """What several counts come to: of all tasks in a minute, or of one task in many."""

    counts: Counter[str] = field(default_factory=Counter)
    durations: Counter[float] = field(default_factory=Counter)
    waits: Counter[float] = field(default_factory=Counter)
    run_seconds: float = 0.0
    wait_seconds: float = 0.0

    def add(self, other: MinuteStats | StatsSum) -> None:
        self.counts.update(other.counts)
        self.durations.update(other.durations)
        self.waits.update(other.waits)
        self.run_seconds += other.run_seconds
        self.wait_seconds += other.wait_seconds

    @property
    def done(self) -> int:
        return self.counts["done"]

    @property
    def failed(self) -> int:
        """Runs that ended with an error, whether or not the job is tried again."""
        return sum(self.counts[kind] for kind in FAILED)

    def ran(self, percent: float) -> float | None:
        return percentile_of(self.durations, percent, self.run_seconds)

    def waited(self, percent: float) -> float | None:
        return percentile_of(self.waits, percent, self.wait_seconds)

    @classmethod
    def of(cls, parts: Iterable[MinuteStats | StatsSum]) -> StatsSum:
        total = cls()
        for part in parts:
            total.add(part)
        return total


@dataclass(frozen=True, slots=True)
class Minutes:
    """The last minutes up to the running one, each with what was counted in it."""

    last: int
    """The running one, since 1970."""
    sums: list[StatsSum]
    recent: dict[str, StatsSum]
    """By queue: what was counted in the last minute that is over and in the running one."""
    tasks: dict[str, StatsSum]
    """By task, in all of these minutes."""
    recent_seconds: float

    def rate(self, count: float) -> float:
        """So many of `recent` for each minute."""
        return count * 60 / self.recent_seconds

    @property
    def now(self) -> StatsSum:
        """What is in `recent`, of all queues."""
        return StatsSum.of(self.recent.values())


class StatsCache:
    """Of one queue, or of all."""

    def __init__(self, admin: Admin, queue: str | None) -> None:
        self._admin = admin
        self._queue = queue
        self._sums: dict[int, dict[str, StatsSum]] = {}
        self._recent: dict[int, dict[str, StatsSum]] = {}
        self._since: int | None = None
        self._read_at = -_MAX_AGE
        self._now = 0.0
        """When it was read, by the store's clock: minutes are those of the store."""
        self._lock = Lock()

    async def minutes(self, count: int) -> Minutes:
        """The last `count` ones; costs one question, about two minutes of them if the others were
        asked for before."""
        async with self._lock:
            seconds = await self._caught_up(count)
        now = int(seconds // 60)
        last = max([now, *(minute for minute in self._sums if minute <= now + 1)])
        wanted = range(last - count + 1, last + 1)
        tasks: dict[str, StatsSum] = {}
        for minute in wanted:
            for task, part in self._sums.get(minute, {}).items():
                tasks.setdefault(task, StatsSum()).add(part)
        sums = [StatsSum.of(self._sums.get(minute, {}).values()) for minute in wanted]
        return Minutes(last, sums, self._recently(last), tasks, 60 + max(1.0, seconds % 60))

    def _recently(self, last: int) -> dict[str, StatsSum]:
        found: dict[str, StatsSum] = {}
        for minute in (last - 1, last):
            for queue, part in self._recent.get(minute, {}).items():
                found.setdefault(queue, StatsSum()).add(part)
        return found

    async def _caught_up(self, count: int) -> float:
        """What time it is in the store, of which `count` minutes are known up to then."""
        age = time.monotonic() - self._read_at
        if age < _MAX_AGE and self._knows(int((self._now + age) // 60) - count + 1):
            return self._now + age
        asked = await self._admin.now()
        now = int(asked.timestamp() // 60)
        since = now - count + 1
        known = self._knows(since)
        reached = max(self._sums, default=now) if known else since
        first = max(since, min(reached, now) - _OPEN) if known else since
        rows = await self._admin.stats(now - first + 1, self._queue, now=asked)
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
        # Known to be over, although nothing was counted.
        self._sums.setdefault(now, {})


class StatsCaches:
    """One for all queues together, and one for each queue that was looked at lately."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._ledgers: dict[str | None, StatsCache] = {}

    def of(self, queue: str | None = None) -> StatsCache:
        ledger = self._ledgers.pop(queue, None) or StatsCache(self._admin, queue)
        # To the end: the first is the one that nobody has asked for in the longest time.
        self._ledgers[queue] = ledger
        if len(self._ledgers) > _QUEUES_KEPT:
            del self._ledgers[next(iter(self._ledgers))]
        return ledger


def minute_text(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%H:%M")
