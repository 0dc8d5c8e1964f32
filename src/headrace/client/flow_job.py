"""The handle of a flow that was sent: its last job, and all the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.client.job import Job, waiting_time
from headrace.client.job_info import JobInfo, job_info
from headrace.client.send.flow_replay import FlowReplay
from headrace.client.send.sync_use import explained_in_sync_code
from headrace.client.watch import JobUpdate
from headrace.core.bounds import check_seconds
from headrace.core.clock import Duration
from headrace.core.flow.counts import FlowCounts, count_states
from headrace.core.job.ids import JobId
from headrace.core.job.progress import Progress
from headrace.core.job.state import Reason, State
from headrace.errors import JobNotFound
from headrace.store.contract import JobSnapshot, Store
from headrace.store.flow_values import FlowPart

R = TypeVar("R")
T = TypeVar("T")

# Jobs in one request, so that the requests of a large group are bounded.
_TOGETHER = 500


class FlowUpdate(JobUpdate, frozen=True):
    """What `flow.watch()` yields whenever something has changed."""

    counts: FlowCounts = FlowCounts()
    """How many jobs are in each state."""


class FlowJob(Job[R]):
    """The handle of a flow. Its id is that of its last job, whose result is the flow's. A group has
    the id of its first job, and the list of all results."""

    __slots__ = ("ends", "gives_list", "jobs")

    def __init__(
        self, jobs: Sequence[Job[Any]], ends: Sequence[Job[Any]], gives_list: bool
    ) -> None:
        first = ends[0]
        super().__init__(first._app, first.job_id, first._queue, first._returns)
        self.jobs = tuple(jobs)
        """All jobs of the flow, each before those that wait for it."""
        self.ends = tuple(ends)
        self.gives_list = gives_list

    @explained_in_sync_code("job.result_sync()")
    async def result(self, timeout: Duration | None = None) -> R:
        """What the last job returned; for a group the list of results, in order. The first failure
        that is seen is raised.

        Args:
            timeout: Seconds to wait; for ever unless said.
        """
        if not self.gives_list:
            return await super().result(timeout)
        timeout = None if timeout is None else waiting_time(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        results: list[Any] = []
        for jobs in _chunks(self.ends):
            left = None if until is None else max(0.0, until - time.monotonic())
            results += await _all_results(jobs, left)
        return results  # type: ignore[return-value]

    @explained_in_sync_code("job.counts_sync()")
    async def counts(self) -> FlowCounts:
        """How many jobs of the flow are in each state, those that were added included: one question
        for each queue of the flow, however large it is. Done and cancelled jobs are counted until
        an hour after the flow has ended; later, jobs that the store does not know count as done.
        In a queue that was removed, they count as cancelled, unless the last job is done."""
        return (await self._counted())[0]

    def counts_sync(self) -> FlowCounts:
        """`counts` for code without an event loop."""
        return self._app.portal.run(self.counts())

    async def progress(self) -> Progress:
        """How much of the flow is done: its jobs that are, of all."""
        return _progress(await self.counts(), await self._now_ms())

    @explained_in_sync_code("job.status_sync()")
    async def status(self) -> State:
        """How the flow has ended, as its last job has; until then, whether any of its jobs runs,
        waits, is scheduled or blocked. A group has also ended when one of its jobs has failed or
        was cancelled. If nothing is kept of the last job, it is as `counts` says: dead or cancelled
        if any job is. `JobNotFound` if the store knows none of its jobs."""
        return (await self._look())[0]

    @explained_in_sync_code("job.info_sync()")
    async def info(self) -> JobInfo:
        """What the store knows of the last job, with the state and the progress of the flow."""
        state, counts = await self._look()
        try:
            last = await super().info()
        except JobNotFound:
            # Nothing is kept of it, but the flow is counted.
            last = job_info(self.id, await self._found_queue(), JobSnapshot(state))
        progress = _progress(counts, await self._now_ms())
        return msgspec.structs.replace(last, state=state, progress=progress)

    async def watch(self, *, poll: Duration = 1.0) -> AsyncGenerator[FlowUpdate, None]:
        """The flow's state, progress and counts: as they are now, then whenever they have changed,
        until it has ended. Changes come within `poll` seconds.

        Args:
            poll: Seconds between two looks, where the store has notified of no change before.
        """
        poll = check_seconds("watch(poll=)", poll, least=0.01)
        last: FlowUpdate | None = None
        while last is None or not last.state.final:
            state, counts = await self._look()
            progress = _progress(counts, await self._now_ms())
            update = FlowUpdate(state, progress, (), counts)
            if last is None or (update.state, counts) != (last.state, last.counts):
                last = update
                yield update
            if not update.state.final:
                await asyncio.sleep(poll)

    @explained_in_sync_code("job.resume_sync()")
    async def resume(self, *, by: str = "") -> int:
        """Replay the jobs of the flow that failed, and any that was sent before the flow and keeps
        it from ending; those that died with them wait again, and keep the results that they have.
        Returns how many were replayed: asking twice replays once. Their history says `by` whom.
        If there are none, and its last job waits for one that was purged, `ConfigError`.

        Args:
            by: Who asks for it, for the history of the jobs.
        """
        replay = FlowReplay((await self._app.session()).store, by)
        for queue, part in (await self._parts(members=True)).items():
            for chunk in _chunks(part.failed):
                await replay.replay(queue, chunk)
        seen = await self._seen(self.ends)
        for queue, jobs in (await _by_queue(job for job in seen if _died_with(seen[job]))).items():
            for some in _chunks(jobs):
                await replay.resume(queue, [job.job_id for job in some])
        if not replay.replayed:
            replay.refuse_stuck()
        return len(replay.replayed)

    def resume_sync(self) -> int:
        """`resume` for code without an event loop."""
        return self._app.portal.run(self.resume())

    @explained_in_sync_code("job.cancel_sync()")
    async def cancel(self, *, running: bool = True) -> bool:
        """End all jobs of the flow: those that have not begun never start, running ones are asked
        to end, unless `running=False`. True if any of its jobs is cancelled or will be, by this
        call or before. `JobNotFound` if the store knows none of them.

        Args:
            running: Whether running jobs are asked to end too.
        """
        store = (await self._app.session()).store
        states: set[State | None] = set()
        # Children first: nothing of the flow starts while it is being cancelled.
        todo = {
            queue: [job.job_id for job in jobs]
            for queue, jobs in (await self._sent_by_queue(reversed(self.jobs))).items()
        }
        asked: set[JobId] = set()
        while todo:
            for queue, job_ids in todo.items():
                for chunk in _chunks(job_ids):
                    states.update(await store.cancel(queue, chunk, running=running))
                asked.update(job_ids)
            # Those that were added, also while it is being cancelled.
            parts = await self._parts(members=True)
            added = {
                queue: [id for id in part.live if id not in asked] for queue, part in parts.items()
            }
            todo = {queue: job_ids for queue, job_ids in added.items() if job_ids}
        if states <= {None}:
            raise JobNotFound(self.id)
        return State.CANCELLED in states or (running and State.RUNNING in states)

    async def _counted(self) -> tuple[FlowCounts, bool]:
        """The counts, and whether the store has any; else they are those of single jobs."""
        counts = FlowCounts()
        by_queue = await self._sent_by_queue(self.jobs)
        parts = await self._parts(by_queue)
        for queue, part in parts.items():
            jobs = by_queue.get(queue, [])
            if part.counts.total >= len(jobs):
                counts += part.counts
            else:
                gone = await self._state_of_forgotten(queue, parts)
                seen = (await self._seen(jobs)).values()
                counts += count_states([each.state if each else gone for each in seen])
        return counts, any(part.counts.total for part in parts.values())

    async def _state_of_forgotten(self, queue: str, parts: Mapping[str, FlowPart]) -> State:
        """How jobs of the queue have ended that the store knows nothing of."""
        last = FlowCounts() if self.gives_list else parts[await self._found_queue()].counts
        if last.total and last.state is State.DONE:
            return State.DONE
        if self._went_last(queue, parts):
            return State.CANCELLED
        queues = await (await self._app.session()).store.queues()
        return State.DONE if queue in queues else State.CANCELLED

    def _went_last(self, queue: str, parts: Mapping[str, FlowPart]) -> bool:
        """Whether the last job went with its queue, even if that is there again. Else it is counted
        for longer than all others that are not dead."""
        others = [
            part.counts for name, part in parts.items() if name != queue and part.counts.total
        ]
        is_last = queue == self._queue and not self.gives_list and not parts[queue].counts.total
        return is_last and bool(others) and not any(each.dead for each in others)

    async def _look(self) -> tuple[State, FlowCounts]:
        # Before the counts: when the last job is done, all others are.
        seen = {} if self.gives_list else await self._seen(self.ends)
        counts, is_known = await self._counted()
        if self.gives_list and (counts.dead or counts.cancelled or not is_known):
            seen = await self._seen(self.ends)
        if not is_known and not any(seen.values()):
            raise JobNotFound(self.id)
        states = {each.state if each else None for each in seen.values()}
        for state in (State.DEAD, State.CANCELLED):
            if state in states:
                return state, counts
        if states == {State.DONE} and not self.gives_list:
            return State.DONE, counts
        # Nothing is kept of a job that was done, but neither of one that was purged or removed.
        return counts.state if counts.live or None in states else State.DONE, counts

    async def _sent_by_queue(self, jobs: Iterable[Job[Any]]) -> dict[str, list[Job[Any]]]:
        """Jobs that were sent with the flow, by queue, with each queue that it may be in."""
        return await _by_queue(jobs)

    async def _parts(
        self, known: Iterable[str] | None = None, *, members: bool = False
    ) -> dict[str, FlowPart]:
        """The flow's jobs by queue, also in queues that only added jobs are in."""
        store: Store = (await self._app.session()).store
        parts: dict[str, FlowPart] = {}
        todo = set(await self._sent_by_queue(self.jobs) if known is None else known)
        while todo:
            queue = todo.pop()
            parts[queue] = await store.flow_part(queue, self.job_id, members=members)
            todo.update(name for name in parts[queue].queues if name not in parts)
        return parts

    async def _now_ms(self) -> int:
        return await (await self._app.session()).store.time_ms()

    async def _seen(self, jobs: Iterable[Job[Any]]) -> dict[Job[Any], JobSnapshot | None]:
        store: Store = (await self._app.session()).store
        seen: dict[Job[Any], JobSnapshot | None] = dict.fromkeys(jobs)
        for queue, there in (await _by_queue(seen)).items():
            for chunk in _chunks(there):
                found = await store.get(queue, [job.job_id for job in chunk])
                seen.update(zip(chunk, found, strict=True))
        return seen


def _died_with(seen: JobSnapshot | None) -> bool:
    """Whether a job is dead because another failed."""
    return seen is not None and (seen.state, seen.reason) == (State.DEAD, Reason.PARENT_FAILED)


def _progress(counts: FlowCounts, now_ms: int) -> Progress:
    return Progress(counts.fraction, f"{counts.done:,} of {counts.total:,}", now_ms)


async def _by_queue(jobs: Iterable[Job[Any]]) -> dict[str, list[Job[Any]]]:
    found: dict[str, list[Job[Any]]] = {}
    for job in jobs:
        found.setdefault(await job._found_queue(), []).append(job)
    return found


async def _all_results(jobs: Sequence[Job[Any]], timeout: float | None) -> list[Any]:
    waiting = [asyncio.ensure_future(job.result(timeout)) for job in jobs]
    try:
        return await asyncio.gather(*waiting)
    finally:
        for one in waiting:
            one.cancel()


def _chunks(jobs: Sequence[T]) -> Iterator[Sequence[T]]:
    return (jobs[at : at + _TOGETHER] for at in range(0, len(jobs), _TOGETHER))
