"""Finds out what is known of a flow: its jobs, their states, and which waits for which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.admin.bodies import opened, task_of
from headrace.admin.jobs.added_jobs import with_added
from headrace.client.attempts import replays_of, reported_start
from headrace.core.clock import to_datetime
from headrace.core.flow.graph import Graph, GraphJob, decode_graph
from headrace.core.job import ids
from headrace.core.job.history import shown_attempts, shown_history
from headrace.core.job.ids import JobId
from headrace.core.job.state import Reason, State
from headrace.core.workers import WORKERS
from headrace.store.contract import JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store


_MOST_TIMED = 100


@dataclass(frozen=True, slots=True)
class FlowJobReplay:
    """A job of a flow that was dead, and was sent again: those that wait for it died with it, and
    waited again."""

    died: datetime | None
    """When its last attempt had ended; None if it had none."""
    at: datetime
    """When it was replayed."""
    by: str
    """Who did that; empty if that is not known."""

    @classmethod
    def all_of(cls, history: bytes) -> tuple[FlowJobReplay, ...]:
        """Those of a job with this history, the first of them first."""
        attempts = enumerate(shown_attempts(history).attempts, 1)
        ended = {each.number or at: to_datetime(each.ended_ms) for at, each in attempts}
        return tuple(cls(ended.get(each.before), each.at, each.by) for each in replays_of(history))


@dataclass(frozen=True, slots=True)
class FlowJobInfo:
    """A job in its flow."""

    id: str
    """The id of the job."""
    queue: str
    """The queue that it is in, or was."""
    task: str | None
    """None if that is not known."""
    state: State | None
    """None if that is not known. A forgotten job is done if a job that waited for it got its
    result."""
    parents: tuple[str, ...]
    """Ids of the jobs it waits for, or waited for, in order."""
    children: tuple[str, ...]
    """Ids of the jobs that wait for it, or waited."""
    started: datetime | None = None
    """When its last run began, if it is done or dead and the history has it, or if it is running
    and its worker has reported it."""
    ended: datetime | None = None
    """When that run ended."""
    replays: tuple[FlowJobReplay, ...] = ()
    """When it was dead and sent again, if the history has it."""


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """A flow, or as much of it as is known, each job before those that wait for it."""

    id: str
    """The id of its last job; of a job without a flow, its own."""
    jobs: tuple[FlowJobInfo, ...]
    """Each before those that wait for it."""
    complete: bool
    """Whether `jobs` are all of them. A large flow has up to 200 near its end, or a few around the
    job."""

    def parents_of(self, id: str) -> list[FlowJobInfo]:
        """The jobs that one of them waits for, or waited for, in order.

        Args:
            id: The id of a job of the flow.
        """
        by_id = {job.id: job for job in self.jobs}
        return [by_id[parent] for parent in by_id[id].parents] if id in by_id else []

    def before(self, id: str) -> list[FlowJobInfo]:
        """The jobs that one of them waits for, or waited for, directly or through others.

        Args:
            id: The id of a job of the flow.
        """
        found, left = dict[str, FlowJobInfo](), self.parents_of(id)
        while left:
            job = left.pop()
            if job.id not in found:
                found[job.id] = job
                left += self.parents_of(job.id)
        return list(found.values())


_WAITING = ((State.BLOCKED, "flow"), (State.DEAD, Reason.PARENT_FAILED))


async def flow_around(
    store: Store, queue: str, job_id: JobId, seen: JobSnapshot, *, times: bool = False
) -> FlowInfo:
    """The flow that a job belongs to; the job alone if it is in none, or too little is kept. With
    `times`, also when its jobs ran."""
    envelope = opened(seen.envelope)
    if envelope is None or not envelope.overrides.flow:
        return _alone(queue, job_id, seen, job_id, complete=envelope is not None)
    flow, graph = envelope.overrides.flow, decode_graph(envelope.overrides.graph)
    whole = graph
    if job_id != flow:
        whole = await _graph_of(store, envelope.overrides.end_queue or queue, flow)
    if whole is not None:
        whole = await with_added(store, whole, flow)
        graph = whole if job_id in whole.job_ids else graph
    if graph is None:
        return _alone(queue, job_id, seen, flow, complete=False)
    jobs = await FlowSurvey(store, graph, times=times).jobs()
    return FlowInfo(ids.to_text(flow), jobs, graph.complete)


def _alone(
    queue: str, job_id: JobId, seen: JobSnapshot, flow: JobId, *, complete: bool
) -> FlowInfo:
    job = FlowJobInfo(ids.to_text(job_id), queue, task_of(seen.envelope), seen.state, (), ())
    return FlowInfo(ids.to_text(flow), (job,), complete)


async def _graph_of(store: Store, queue: str, job_id: JobId) -> Graph | None:
    """The graph that the last job of a flow carries; None if it is done, or not kept."""
    (seen,) = await store.get(queue, [job_id], bodies=True)
    envelope = None if seen is None else opened(seen.envelope)
    return None if envelope is None else decode_graph(envelope.overrides.graph)


class FlowSurvey:
    """Finds out the state of each job of a graph."""

    def __init__(self, store: Store, graph: Graph, *, times: bool = False) -> None:
        self._store = store
        self._whole = times and len(graph.jobs) <= _MOST_TIMED
        self._graph = graph
        self._seen: dict[JobId, JobSnapshot | None] = {}
        self._arrived: set[tuple[JobId, JobId]] = set()
        self._states: dict[JobId, State | None] = {}
        self._workers: Mapping[str, bytes] = {}
        self._children: dict[JobId, list[GraphJob]] = {job.job_id: [] for job in graph.jobs}
        for job in graph.jobs:
            for parent in job.parents:
                self._children[graph.jobs[parent].job_id].append(job)

    async def jobs(self) -> tuple[FlowJobInfo, ...]:
        await self._look()
        await self._read_arrivals()
        states = (seen.state for seen in self._seen.values() if seen is not None)
        if self._whole and State.RUNNING in states:
            self._workers = await self._store.kv_all(WORKERS)
        # From the end: the state of a forgotten job follows from those after it.
        for job in reversed(self._graph.jobs):
            seen = self._seen[job.job_id]
            self._states[job.job_id] = self._guessed(job) if seen is None else seen.state
        return tuple(map(self._info, self._graph.jobs))

    async def _look(self) -> None:
        # Bodies only where they are needed to know the task: each may have megabytes.
        for queue, jobs in self._by_queue(self._graph.jobs).items():
            for bodies in (False, True):
                job_ids = [job.job_id for job in jobs if self._needs_body(job) is bodies]
                if job_ids:
                    found = await self._store.get(queue, job_ids, bodies=bodies)
                    self._seen.update(zip(job_ids, found, strict=True))

    def _needs_body(self, job: GraphJob) -> bool:
        return self._whole or self._graph.task(job) is None

    async def _read_arrivals(self) -> None:
        waiting = [job for job in self._graph.jobs if _waits(self._seen[job.job_id])]
        for queue, jobs in self._by_queue(waiting).items():
            parents = self._graph.jobs
            pairs = [
                (job.job_id, parents[at].job_id)
                for job in jobs
                for at in job.parents
                if self._seen[parents[at].job_id] is None
            ]
            arrived = await self._store.arrived(queue, pairs) if pairs else []
            self._arrived.update(pair for pair, was in zip(pairs, arrived, strict=True) if was)

    def _by_queue(self, jobs: tuple[GraphJob, ...] | list[GraphJob]) -> dict[str, list[GraphJob]]:
        found: dict[str, list[GraphJob]] = {}
        for job in jobs:
            found.setdefault(self._graph.queue(job), []).append(job)
        return found

    def _guessed(self, job: GraphJob) -> State | None:
        if any(self._got(child, job) for child in self._children[job.job_id]):
            return State.DONE
        return None

    def _got(self, child: GraphJob, parent: GraphJob) -> bool:
        """Whether a job has got the result of another, and waits for it no longer."""
        seen = self._seen[child.job_id]
        if seen is None:
            return self._states[child.job_id] is State.DONE
        if _waits(seen):
            return (child.job_id, parent.job_id) in self._arrived
        return seen.state is not State.CANCELLED

    def _info(self, job: GraphJob) -> FlowJobInfo:
        seen = self._seen[job.job_id]
        return FlowJobInfo(
            id=ids.to_text(job.job_id),
            queue=self._graph.queue(job),
            task=self._graph.task(job) or (task_of(seen.envelope) if seen else None),
            state=self._states[job.job_id],
            parents=tuple(ids.to_text(self._graph.jobs[at].job_id) for at in job.parents),
            children=tuple(ids.to_text(child.job_id) for child in self._children[job.job_id]),
            replays=FlowJobReplay.all_of(seen.history) if seen and self._whole else (),
            **self._run_times(job.job_id, seen),
        )

    def _run_times(self, job_id: JobId, seen: JobSnapshot | None) -> dict[str, datetime]:
        if seen is None or seen.state is not State.RUNNING:
            return _past_run_times(seen)
        started = reported_start(self._workers, seen.worker, job_id)
        return {} if started is None else {"started": started}


def _past_run_times(seen: JobSnapshot | None) -> dict[str, datetime]:
    if seen is not None and seen.state is State.DEAD:
        tries = [each for each in shown_history(seen.history).attempts if each.started_ms]
        return _between(tries[-1].started_ms, tries[-1].ended_ms) if tries else {}
    ended = None if seen is None else seen.ended
    if ended is None or not ended.started_ms:
        return {}
    return _between(ended.started_ms, ended.started_ms + ended.took_us / 1000)


def _between(started_ms: int, ended_ms: float) -> dict[str, datetime]:
    started = to_datetime(started_ms)
    return {"started": started, "ended": started + timedelta(milliseconds=ended_ms - started_ms)}


def _waits(seen: JobSnapshot | None) -> bool:
    """Whether the store knows which ends have arrived at the job: it is blocked, or died with one
    that it waits for."""
    return seen is not None and (seen.state, seen.reason) in _WAITING
