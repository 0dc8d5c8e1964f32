"""How the whole store is, asked for when somebody scrapes, and not more often than that helps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from headrace.exposition.fleet import Fleet
from headrace.exposition.store_probe import why_unanswered

if TYPE_CHECKING:
    from headrace.admin.queues import QueueInfo
    from headrace.admin.topics.topic_info import GroupInfo, TopicInfo
    from headrace.admin.workers import WorkerInfo
    from headrace.app import Headrace
    from headrace.core.workers import SupervisorRecord

_FRESH = 3.0
# Less than what Prometheus gives a scrape.
_PATIENCE = 4.0
_STATES = ("waiting", "running", "scheduled", "blocked", "dead")


@dataclass(frozen=True, slots=True)
class View:
    """What there is in a store."""

    queues: list[QueueInfo]
    topics: list[TopicInfo]
    workers: list[WorkerInfo]
    supervisors: list[SupervisorRecord]


class StoreWide:
    """Looks at a store by `app.admin`; what it saw is good for a few seconds. One that is away
    costs a few seconds, then nothing for as many."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self._view: View | None = None
        self._looked_at = float("-inf")

    async def look(self, app: Headrace, *, at_fleet: bool = False) -> View | None:
        """What there is; None if the store is away. `at_fleet` has `fleet` look, too."""
        if time.monotonic() - self._looked_at < _FRESH:
            return self._view
        self._view = None
        await why_unanswered(self._see(app, at_fleet=at_fleet), _PATIENCE)
        self._looked_at = time.monotonic()
        return self._view

    async def _see(self, app: Headrace, *, at_fleet: bool) -> None:
        view = await _read(app)
        if at_fleet:
            await self.fleet.look(app)
        self._view = view


async def _read(app: Headrace) -> View:
    admin = app.admin
    return View(
        await admin.queues(),
        await admin.topics(),
        await admin.workers(),
        await admin.supervisors(),
    )


def of_store(view: View | None) -> Iterator[Metric]:
    """The state of a store, which is the same whoever is asked."""
    up = GaugeMetricFamily("headrace_store_up", "Whether the store could be asked.")
    up.add_metric((), view is not None)
    yield up
    if view is None:
        return
    yield from _queues(view)
    yield from _topics(view)
    workers = GaugeMetricFamily("headrace_workers", "Workers that are running.")
    workers.add_metric((), len(view.workers))
    yield workers
    processes = GaugeMetricFamily(
        "headrace_supervisor_processes",
        "Worker processes of each parent that scales them.",
        labels=("host", "pid"),
    )
    for each in view.supervisors:
        processes.add_metric((each.host, str(each.pid)), each.processes.count)
    yield processes


def of_workers(view: View | None) -> Iterator[Metric]:
    """What all workers of a store hold, and can."""
    workers = [] if view is None else view.workers
    running = GaugeMetricFamily("headrace_fleet_jobs_running", "Jobs that all workers hold.")
    running.add_metric((), sum(worker.running for worker in workers))
    slots = GaugeMetricFamily("headrace_fleet_slots", "Jobs that all workers can hold at once.")
    slots.add_metric((), sum(worker.concurrency for worker in workers))
    yield from (running, slots)


def _queues(view: View) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "headrace_queue_jobs", "Jobs of a queue, by state.", labels=("queue", "state")
    )
    oldest = _by_queue("headrace_queue_oldest_age_seconds", "How long the oldest job has waited.")
    paused = _by_queue("headrace_queue_paused", "Whether the queue is paused.")
    read_by = _by_queue("headrace_queue_workers", "Workers that read the queue.")
    readers = Counter(queue for worker in view.workers for queue in worker.queues)
    for queue in view.queues:
        for state in _STATES:
            jobs.add_metric((queue.name, state), getattr(queue, state))
        oldest.add_metric((queue.name,), queue.age or 0.0)
        paused.add_metric((queue.name,), queue.paused)
        read_by.add_metric((queue.name,), readers[queue.name])
    yield from (jobs, oldest, paused, read_by)


def _by_queue(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=("queue",))


def _topics(view: View) -> Iterator[Metric]:
    events = GaugeMetricFamily("headrace_topic_events", "Events in a log.", labels=("topic",))
    for topic in view.topics:
        events.add_metric((topic.name,), topic.length)
    yield events
    groups = [(topic.name, group) for topic in view.topics for group in topic.groups]
    yield _by_group("lag", "Events that a group has not taken yet.", groups, "behind")
    yield _by_group(
        "oldest_age_seconds", "How long ago its oldest open event was published.", groups, "age"
    )
    yield _by_group("paused", "Whether the group is paused.", groups, "paused")
    yield _by_group("stopped_keys", "Keys that are stopped.", groups, "stopped_keys")
    jobs = GaugeMetricFamily(
        "headrace_topic_group_events",
        "Events that a group holds, by state.",
        labels=("topic", "group", "state"),
    )
    for name, group in groups:
        for state in _STATES:
            jobs.add_metric((name, group.name, state), getattr(group, state))
    yield jobs


def _by_group(name: str, text: str, groups: list[tuple[str, GroupInfo]], field: str) -> Metric:
    family = GaugeMetricFamily(f"headrace_topic_group_{name}", text, labels=("topic", "group"))
    for topic, group in groups:
        family.add_metric((topic, group.name), getattr(group, field) or 0)
    return family
