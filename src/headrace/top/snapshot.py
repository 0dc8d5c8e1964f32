"""Snapshots: what the terminal view shows at one moment, read from `app.admin`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headrace.admin import (
    Admin,
    DeadInfo,
    GroupCounts,
    JobSummary,
    MinuteStats,
    QueueInfo,
    TopicInfo,
    WorkerInfo,
)
from headrace.admin.stats_sum import FAILED

_MINUTES = 30
_QUEUES = 200
_TOPICS = 200
_ERRORS = 50
_ERRORS_SCANNED = 200
# Queues whose dead jobs are read; the rest are left out, so that a snapshot has a bounded cost.
_QUEUES_WITH_ERRORS = 8
# The same for ended jobs, of those queues in which jobs ended last.
_QUEUES_WITH_ENDED = 8
_ENDED_OF_QUEUE = 20

Minutes = dict[datetime, Counter[str]]
"""What was counted in each minute, by kind."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue with its rates."""

    info: QueueInfo
    done: float
    """Jobs done per second, since the last snapshot."""
    failed: float
    history: tuple[int, ...]
    """Jobs that ended in each of the last minutes, the running one last."""


@dataclass(frozen=True, slots=True)
class TopSnapshot:
    queues: tuple[QueueRow, ...] = ()
    workers: tuple[WorkerInfo, ...] = ()
    errors: tuple[DeadInfo, ...] = ()
    """Dead jobs, the latest first."""
    hidden: int = 0
    """How many queues are not shown."""
    ended: tuple[JobSummary, ...] = ()
    """Jobs that are done, the latest first, if they were asked for."""
    topics: tuple[TopicInfo, ...] = ()
    """If they were asked for."""
    groups: tuple[GroupCounts, ...] = ()

    @property
    def done(self) -> float:
        return sum(row.done for row in self.queues)

    @property
    def failed(self) -> float:
        return sum(row.failed for row in self.queues)

    def total(self, state: str) -> int:
        """How many jobs of all queues, and events of all groups, are in a state."""
        counts = [*(row.info for row in self.queues), *self.groups]
        return sum(getattr(each, state) for each in counts)


@dataclass
class SnapshotReader:
    """Reads one snapshot after another; rates are what was counted between two of them."""

    admin: Admin
    _counted: dict[str, Minutes] = field(default_factory=dict)
    _at: float = 0.0

    async def read(
        self, search: str = "", *, ended: bool = False, topics: bool = False
    ) -> TopSnapshot:
        """A snapshot, in a bounded number of calls to the store; with `ended` jobs and topics if
        they are shown."""
        page = await self.admin.queue_page(search or None, limit=_QUEUES)
        names = [info.name for info in page.queues]
        stats = await self.admin.stats(_MINUTES, names) if names else []
        groups = [each for each in await self.admin.group_counts() if search in each.name]
        dead = [info.name for info in page.queues if info.dead]
        dead += [group.name for group in groups if group.dead]
        errors = await self._errors(dead)
        now, before = time.monotonic(), self._at
        rows = self._rows(page.queues, stats, now - before if before else 0.0)
        self._at = now
        workers = await self.admin.workers()
        done = await self._ended(rows) if ended else []
        found = (await self.admin.topics())[:_TOPICS] if topics else []
        hidden = page.total - len(names)
        tables = tuple(rows), tuple(workers), tuple(errors)
        return TopSnapshot(*tables, hidden, tuple(done), tuple(found), tuple(groups))

    async def _ended(self, rows: Sequence[QueueRow]) -> list[JobSummary]:
        busy = sorted(rows, key=lambda row: row.history[::-1], reverse=True)
        found: list[JobSummary] = []
        for row in busy[:_QUEUES_WITH_ENDED]:
            page = await self.admin.jobs(
                row.info.name, "done", limit=_ENDED_OF_QUEUE, scan=_ENDED_OF_QUEUE
            )
            found += page.jobs
        return sorted(found, key=_ended_at, reverse=True)[:_ERRORS]

    async def _errors(self, queues: Sequence[str]) -> list[DeadInfo]:
        found: list[DeadInfo] = []
        for queue in queues[:_QUEUES_WITH_ERRORS]:
            page = await self.admin.dead_page(queue, limit=_ERRORS, scan=_ERRORS_SCANNED)
            found += page.jobs
        return sorted(found, key=lambda info: info.died, reverse=True)[:_ERRORS]

    def _rows(
        self, queues: Iterable[QueueInfo], stats: Iterable[MinuteStats], seconds: float
    ) -> list[QueueRow]:
        counted: dict[str, Minutes] = {}
        for each in stats:
            minutes = counted.setdefault(each.queue, {})
            minutes.setdefault(each.minute, Counter()).update(each.counts)
        last = max((minute for minutes in counted.values() for minute in minutes), default=None)
        rows = []
        for info in queues:
            now = counted.setdefault(info.name, {})
            # If the queue was not read the last time, what is new is not known.
            before = self._counted.get(info.name, now)
            rows.append(QueueRow(info, *_rates(now, before, seconds), _history(now, last)))
        self._counted = counted
        return rows


def _ended_at(job: JobSummary) -> float:
    return job.ended.timestamp() if job.ended else 0.0


def _rates(now: Minutes, before: Minutes, seconds: float) -> tuple[float, float]:
    """Done and failed per second; zero in the first snapshot."""
    if seconds <= 0:
        return 0.0, 0.0
    new: Counter[str] = Counter()
    # Minute by minute: the oldest one is not in the next snapshot.
    for minute, counts in now.items():
        new.update(counts)
        new.subtract(before.get(minute, Counter()))
    return new["done"] / seconds, sum(new[kind] for kind in FAILED) / seconds


def _history(minutes: Minutes, last: datetime | None) -> tuple[int, ...]:
    if last is None:
        return (0,) * _MINUTES
    counts = [0] * _MINUTES
    for minute, kinds in minutes.items():
        ago = round((last - minute).total_seconds() / 60)
        if ago < _MINUTES:
            counts[-1 - ago] += kinds["done"] + kinds["dead"]
    return tuple(counts)
