"""The handle of a flow that was sent: its last job, and all the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from headrace.client.job import Job
from headrace.core.job.state import State
from headrace.errors import JobNotFound
from headrace.store.contract import JobSnapshot, Store

R = TypeVar("R")

# Jobs in one request, so that the requests of a large group are bounded.
_TOGETHER = 500


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

    async def result(self, timeout: float | None = None) -> R:
        """What the last job returned; for a group the list of results, in order. The first failure
        that is seen is raised."""
        if not self.gives_list:
            return await super().result(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        results: list[Any] = []
        for jobs in _chunks(self.ends):
            left = None if until is None else max(0.0, until - time.monotonic())
            results += await _all_results(jobs, left)
        return results  # type: ignore[return-value]

    async def status(self) -> State:
        """The state of the last job. A group has ended when all its jobs have, or when one of them
        has failed or was cancelled."""
        if not self.gives_list:
            return await super().status()
        snapshots = await self._seen(self.ends)
        states = [seen.state if seen else State.DONE for seen in snapshots.values()]
        if not any(snapshots.values()):
            raise JobNotFound(self.id)
        for state in _DECISIVE:
            if state in states:
                return state
        return next((state for state in states if not state.final), State.DONE)

    async def cancel(self) -> bool:
        """End all jobs of the flow that have not begun; those that run go on. True if any of its
        jobs is cancelled, by this call or before. `JobNotFound` if the store knows none of them."""
        store = (await self._app.session()).store
        states: set[State | None] = set()
        # Children first: nothing of the flow starts while it is being cancelled.
        for queue, jobs in (await _by_queue(reversed(self.jobs))).items():
            for chunk in _chunks(jobs):
                job_ids = [job.job_id for job in chunk]
                states.update(await store.cancel(queue, job_ids, running=False))
        if states == {None}:
            raise JobNotFound(self.id)
        return State.CANCELLED in states

    async def _seen(self, jobs: Iterable[Job[Any]]) -> dict[Job[Any], JobSnapshot | None]:
        store: Store = (await self._app.session()).store
        seen: dict[Job[Any], JobSnapshot | None] = dict.fromkeys(jobs)
        for queue, there in (await _by_queue(seen)).items():
            for chunk in _chunks(there):
                found = await store.get(queue, [job.job_id for job in chunk])
                seen.update(zip(chunk, found, strict=True))
        return seen


_DECISIVE = (State.DEAD, State.CANCELLED, State.RUNNING)


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


def _chunks(jobs: Sequence[Job[Any]]) -> Iterator[Sequence[Job[Any]]]:
    return (jobs[at : at + _TOGETHER] for at in range(0, len(jobs), _TOGETHER))
