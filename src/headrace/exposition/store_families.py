"""The state and the counters of the whole store as metrics; read at a scrape, and cached."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core.job.tally import RUN, RUN_US, WAIT, WAIT_US
from headrace.exposition.health import error_within
from headrace.metrics.family import Family
from headrace.metrics.totals import ByTask

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.admin.queues import QueueInfo
    from headrace.admin.stats import MinuteStats
    from headrace.admin.topics.topic_info import GroupInfo, TopicInfo
    from headrace.admin.workers import WorkerInfo
    from headrace.core.workers import SupervisorRecord

_MAX_AGE = 3.0
# Shorter than the time Prometheus gives a scrape.
_TIMEOUT = 4.0
_SECOND_US = 1_000_000
# The store keeps them for a day.
_MOST_MINUTES = 24 * 60
_STATES = ("waiting", "running", "scheduled", "blocked", "dead")


Cell = tuple[datetime, str, str, str]


@dataclass(frozen=True, slots=True)
class StoreState:
    """The queues, topics and workers of a store."""

    queues: list[QueueInfo]
    topics: list[TopicInfo]
    workers: list[WorkerInfo]
    supervisors: list[SupervisorRecord]


class FleetCounters:
    """Counters that start at zero with the first update and never go down, whatever the store
    forgets. Updates may be up to a day apart."""

    def __init__(self) -> None:
        self._seen: dict[Cell, int] = {}
        self._updated_at: float | None = None
        self._counts: dict[str, ByTask] = {}
        self._updating = threading.Lock()

    @property
    def counts(self) -> dict[str, ByTask]:
        """As of the last update, by queue and task, under the names of a `Tally` and kinds of
        events."""
        return self._counts

    async def update(self, admin: Admin) -> None:
        """Add what the store has counted since the last update; does nothing while another
        update is under way."""
        # One at a time: an answer that is overtaken by a newer one would be counted twice.
        if not self._updating.acquire(blocking=False):
            return
        try:
            self._add(await admin.stats(self._minutes()), first=self._updated_at is None)
            # The time after the answer: minutes that it left out must not be asked for next.
            self._updated_at = time.monotonic()
        finally:
            self._updating.release()

    def _minutes(self) -> int:
        since = 0.0 if self._updated_at is None else time.monotonic() - self._updated_at
        # The running minute and the one before: both may have grown since the last update.
        return min(int(since / 60) + 3, _MOST_MINUTES)

    def _add(self, stats: Sequence[MinuteStats], *, first: bool) -> None:
        seen = {cell: count for each in stats for cell, count in _cells(each)}
        for cell, count in seen.items():
            _, queue, task, name = cell
            mine = self._counts.setdefault(queue, {}).setdefault(task, {})
            more = 0 if first else max(0, count - self._seen.get(cell, 0))
            mine[name] = mine.get(name, 0) + more
        self._seen = seen


def _cells(stats: MinuteStats) -> Iterator[tuple[Cell, int]]:
    counts = {
        **stats.counts,
        **{f"{RUN}{round(most * _SECOND_US)}": n for most, n in stats.durations.items()},
        **{f"{WAIT}{round(most * _SECOND_US)}": n for most, n in stats.waits.items()},
        RUN_US: round(stats.run_seconds * _SECOND_US),
        WAIT_US: round(stats.wait_seconds * _SECOND_US),
    }
    for name, count in counts.items():
        yield (stats.minute, stats.queue, stats.task, name), count


class StoreReader:
    """Reads the state of a store, and caches it for a few seconds, also that it is away."""

    def __init__(self) -> None:
        self.fleet = FleetCounters()
        self._state: StoreState | None = None
        self._read_at = float("-inf")

    async def read(self, admin: Admin, *, fleet: bool = False) -> StoreState | None:
        """The state; None if the store does not answer in time. With `fleet`, the fleet's counters
        are updated too."""
        if time.monotonic() - self._read_at < _MAX_AGE:
            return self._state
        self._state = None
        await error_within(self._refresh(admin, fleet=fleet), _TIMEOUT)
        self._read_at = time.monotonic()
        return self._state

    async def _refresh(self, admin: Admin, *, fleet: bool) -> None:
        state = await _read(admin)
        if fleet:
            await self.fleet.update(admin)
        self._state = state


async def _read(admin: Admin) -> StoreState:
    return StoreState(
        await admin.queues(),
        await admin.topics(),
        await admin.workers(),
        await admin.supervisors(),
    )


def store_families(state: StoreState | None) -> Iterator[Family]:
    """The state of a store: the same from every process that serves it."""
    up = Family("gauge", "store_up", "Whether the store answers.")
    up.add((), state is not None)
    yield up
    if state is None:
        return
    yield from _queues(state)
    yield from _topics(state)
    workers = Family("gauge", "workers", "Workers that are running.")
    workers.add((), len(state.workers))
    yield workers
    processes = Family(
        "gauge",
        "supervisor_processes",
        "Worker processes of each parent that scales them.",
        labels=("host", "pid"),
    )
    for each in state.supervisors:
        processes.add((each.host, str(each.pid)), each.processes.count)
    yield processes


def capacity_families(state: StoreState | None) -> Iterator[Family]:
    """The jobs that all workers of a store hold, and can hold."""
    workers = [] if state is None else state.workers
    running = Family("gauge", "fleet_jobs_running", "Jobs that all workers hold.")
    running.add((), sum(worker.running for worker in workers))
    slots = Family("gauge", "fleet_slots", "Jobs that all workers can hold at once.")
    slots.add((), sum(worker.concurrency for worker in workers))
    yield from (running, slots)


def _queues(state: StoreState) -> Iterator[Family]:
    jobs = Family("gauge", "queue_jobs", "Jobs of a queue, by state.", labels=("queue", "state"))
    oldest = _by_queue("queue_oldest_age_seconds", "How long the oldest job has waited.")
    paused = _by_queue("queue_paused", "Whether the queue is paused.")
    read_by = _by_queue("queue_workers", "Workers that read the queue.")
    readers = Counter(queue for worker in state.workers for queue in worker.queues)
    for queue in state.queues:
        for job_state in _STATES:
            jobs.add((queue.name, job_state), getattr(queue, job_state))
        oldest.add((queue.name,), queue.age or 0.0)
        paused.add((queue.name,), queue.paused)
        read_by.add((queue.name,), readers[queue.name])
    yield from (jobs, oldest, paused, read_by)


def _by_queue(name: str, text: str) -> Family:
    return Family("gauge", name, text, labels=("queue",))


def _topics(state: StoreState) -> Iterator[Family]:
    events = Family("gauge", "topic_events", "Events in a log.", labels=("topic",))
    dropped = Family(
        "gauge",
        "topic_dropped_events",
        "Events of the last hour that a bound removed before all groups had settled them.",
        labels=("topic",),
    )
    for topic in state.topics:
        events.add((topic.name,), topic.length)
        dropped.add((topic.name,), topic.dropped)
    yield from (events, dropped)
    groups = [(topic.name, group) for topic in state.topics for group in topic.groups]
    yield _by_group("lag", "Events that a group has neither handled nor given up.", groups, "lag")
    yield _by_group("behind", "Events that a group has not taken yet.", groups, "behind")
    yield _by_group(
        "oldest_age_seconds", "Age of the oldest event that is not settled.", groups, "age"
    )
    yield _by_group("paused", "Whether the group is paused.", groups, "paused")
    yield _by_group("stopped_keys", "Keys that are stopped.", groups, "stopped_keys")
    yield _by_group(
        "stopped_events", "Events that wait behind stopped keys.", groups, "stopped_events"
    )
    yield _by_group(
        "stopped_age_seconds", "Time since the first key was stopped.", groups, "stopped_age"
    )
    jobs = Family(
        "gauge",
        "topic_group_events",
        "Events that a group holds, by state.",
        labels=("topic", "group", "state"),
    )
    for name, group in groups:
        for job_state in _STATES:
            jobs.add((name, group.name, job_state), getattr(group, job_state))
    yield jobs


def _by_group(name: str, text: str, groups: list[tuple[str, GroupInfo]], field: str) -> Family:
    family = Family("gauge", f"topic_group_{name}", text, labels=("topic", "group"))
    for topic, group in groups:
        family.add((topic, group.name), getattr(group, field) or 0)
    return family
