"""The backlog in the store, for consumers of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headrace.client.topic.subscription import Subscription
from headrace.core.job.capacity import Runner
from headrace.core.queue_names import group_source
from headrace.core.scaling.snapshot import Load
from headrace.core.workers import WORKERS, WorkerRecord, decode_record
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.worker.settings import WorkerSettings

JOBS = "jobs"
_NOTHING = Counts()
_PLACES = {"thread": "threads", "process": "processes"}


class Workload(NamedTuple):
    """What consumers of one kind read: those jobs in the ordinary queues of a worker that are for
    one runner, or all shards of one subscription."""

    name: str
    queues: tuple[str, ...]
    each: int
    """What one consumer can run at once."""
    runner: Runner = "loop"

    @property
    def label(self) -> str:
        if self.name != JOBS:
            return f"events of {self.name}"
        return JOBS if self.runner == "loop" else f"jobs for {_PLACES[self.runner]}"

    def slots_of(self, worker: WorkerRecord) -> int:
        """How much of this workload a worker can run at once."""
        if self.name in worker.consumers:
            return worker.consumers[self.name].slots
        if not set(self.queues) & worker.queues.keys():
            return 0
        if self.runner == "loop":
            return worker.concurrency
        places = worker.threads if self.runner == "thread" else worker.processes
        return min(places, worker.concurrency)


def workload_of(
    subscription: Subscription[..., Any], settings: WorkerSettings, consumers: int = 1
) -> Workload:
    """What consumers of a subscription read. All of them share the threads of their worker."""
    each = consumers * settings.slots_of(subscription)
    if subscription.declared.run_in == "thread":
        each = min(each, settings.threads)
    return Workload(subscription.name, tuple(subscription.queues), each)


def workloads_of(settings: WorkerSettings) -> list[Workload]:
    """What a worker reads, and how much of each it can run with the most consumers that each
    subscription may have."""
    workloads = []
    if settings.queues:
        queues, slots = tuple(settings.queues), settings.concurrency
        workloads = [
            Workload(JOBS, queues, slots),
            Workload(JOBS, queues, min(settings.threads, slots), "thread"),
            Workload(JOBS, queues, min(settings.processes, slots), "process"),
        ]
    for subscription in settings.subscriptions:
        _, most = settings.scale_of(subscription)
        workloads.append(workload_of(subscription, settings, consumers=most))
    return workloads


class QueueLoad(NamedTuple):
    """What is in the queues of one workload."""

    waiting: int = 0
    """Ready to be taken; what is in paused queues is not."""
    running: int = 0
    scheduled: int = 0
    """On hold until its time, such as that of a retry; no consumer could take it."""
    oldest_age: float | None = None

    def __add__(self, other: object) -> QueueLoad:
        if not isinstance(other, QueueLoad):
            return NotImplemented
        ages = [age for age in (self.oldest_age, other.oldest_age) if age is not None]
        return QueueLoad(
            self.waiting + other.waiting,
            self.running + other.running,
            self.scheduled + other.scheduled,
            max(ages, default=None),
        )


class WorkloadSurvey(msgspec.Struct, frozen=True):
    """The load of some workloads, and all workers."""

    seen: dict[Workload, QueueLoad]
    workers: tuple[WorkerRecord, ...] = ()

    def loads(self, active: int, is_ours: Callable[[WorkerRecord], bool]) -> list[Load]:
        """The load for `active` consumers. Workers that are not ours take their share of it."""
        others = [worker for worker in self.workers if not is_ours(worker)]
        return [
            Load(
                seen.waiting,
                seen.oldest_age,
                seen.running,
                active,
                workload.each,
                sum(map(workload.slots_of, others)),
                of=workload.label + (f" ({seen.scheduled} later)" if seen.scheduled else ""),
            )
            for workload, seen in self.seen.items()
        ]

    def held_by(self, host: str, pid: int) -> int:
        """How many jobs and events a worker process held at its last beat."""
        return sum(w.running for w in self.workers if (w.host, w.pid) == (host, pid))


async def take_survey(store: Store, workloads: Sequence[Workload]) -> WorkloadSurvey:
    """Ask the store about all workloads; raises `StoreError`, for half a survey would mislead."""
    queues = {queue for one in workloads if one.name == JOBS for queue in one.queues}
    jobs = await _look_at_jobs(store, sorted(queues))
    seen = {
        one: _in_all(jobs, one) if one.name == JOBS else await _look_at_all(store, one)
        for one in workloads
    }
    return WorkloadSurvey(seen, await workers_of(store))


async def workers_of(store: Store) -> tuple[WorkerRecord, ...]:
    """All workers that have written their record within a lease."""
    records = map(decode_record, (await store.kv_all(WORKERS)).values())
    return tuple(record for record in records if record is not None)


def _in_all(jobs: Mapping[tuple[str, Runner], QueueLoad], workload: Workload) -> QueueLoad:
    nothing = QueueLoad()
    found = (jobs.get((queue, workload.runner), nothing) for queue in workload.queues)
    return sum(found, nothing)


async def _look_at_jobs(store: Store, queues: Sequence[str]) -> dict[tuple[str, Runner], QueueLoad]:
    """What is in ordinary queues, by queue and runner."""
    if not queues:
        return {}
    now_ms = await store.time_ms()
    found: dict[tuple[str, Runner], QueueLoad] = {}
    for queue, state in zip(queues, await store.survey(queues), strict=True):
        for runner, jobs in state.runners.items():
            age = None if jobs.oldest_ms is None else max(now_ms - jobs.oldest_ms, 0) / 1000
            waiting = 0 if state.paused else jobs.waiting
            found[queue, runner] = QueueLoad(waiting, jobs.running, 0, age if waiting else None)
        later = QueueLoad(scheduled=state.counts.scheduled)
        found[queue, "loop"] = found.get((queue, "loop"), QueueLoad()) + later
    return found


async def _look_at_all(store: Store, workload: Workload) -> QueueLoad:
    seen = QueueLoad()
    for queue in workload.queues:
        seen += await look_at(store, queue)
    return seen


async def look_at(store: Store, queue: str) -> QueueLoad:
    """What is in a queue, or in a group's queue and before it in the log."""
    counts, oldest_ms = _NOTHING, None
    group = group_source(queue)
    if group is None:
        counts = await store.count(queue)
    else:
        for state in (await store.groups([group.log]))[group.log]:
            if state.name == group.group:
                counts, oldest_ms = state.counts, state.oldest_ms
    paused = bool(counts.waiting) and (await store.control(queue)).paused
    age = None if oldest_ms is None else max(await store.time_ms() - oldest_ms, 0) / 1000
    return QueueLoad(0 if paused else counts.waiting, counts.running, counts.scheduled, age)
