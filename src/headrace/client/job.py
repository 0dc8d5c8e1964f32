"""The handle of a job that was sent."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from headrace.client.attempts import run_started
from headrace.client.job_end import ResultForms, job_failure, unpacked_result
from headrace.client.job_info import JobInfo, job_info
from headrace.client.portal import Portal
from headrace.client.send.sync_use import explained_in_sync_code
from headrace.client.session import ClientSession
from headrace.client.watch import JobUpdate, JobWatch
from headrace.core.bounds import check_seconds
from headrace.core.clock import Duration
from headrace.core.foreign_words import OF_JOBS
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.job.progress import Progress, decode_progress
from headrace.core.job.state import State
from headrace.core.task.call import Call
from headrace.core.wrong_use import foreign_names
from headrace.errors import (
    JobNotFound,
    ResultExpired,
    ResultLost,
    ResultTimeout,
    ResultUnreadable,
)
from headrace.store.contract import JobSnapshot

R = TypeVar("R")
T = TypeVar("T")

# Seconds in which the replay of a job mostly arrives at those that wait for it in other queues, and
# at most between two looks if it does not: a worker may have to bring it first.
_RESUMED_IN = 0.02
_RESUMED_POLL = 1.0
# Seconds in which a job that a person moves arrives in its other queue, also one of many.
_MOVED_IN = 1.0


class JobApp(ResultForms, Protocol):
    """What the handle of a job needs of the app that sent it. `Headrace` is one."""

    @property
    def portal(self) -> Portal: ...

    async def session(self) -> ClientSession:
        """What this event loop holds of the store; opened when first asked for."""
        ...

    async def find_queue(self, job_id: JobId) -> str | None:
        """The queue that knows this job."""

    async def result_timeout(self, job_id: str, queue: str, waited: float) -> ResultTimeout:
        """The error of someone who has waited so long for this job."""
        ...


@foreign_names(OF_JOBS)
class Job(Generic[R]):
    """The handle of a job. It holds no state of the job: each question goes to the store."""

    __slots__ = ("_app", "_queue", "_returns", "job_id")

    def __init__(self, app: JobApp, job_id: JobId, queue: str | None, returns: Any = Any) -> None:
        self._app = app
        self._queue = queue
        self._returns = returns
        self.job_id = job_id

    @property
    def id(self) -> str:
        """For `app.job(id)`, in this process or another."""
        return ids.to_text(self.job_id)

    @explained_in_sync_code("job.result_sync()")
    async def result(self, timeout: Duration | None = None) -> R:
        """What the task returned, once it has. Raises `JobFailed`, `JobCancelled`, `ResultTimeout`
        after `timeout` seconds, `ResultExpired` if the result is not kept (any more), `ResultLost`
        if what the task returned cannot travel, or `JobNotFound` if the job was removed with its
        queue.

        Args:
            timeout: Seconds, or a timedelta, to wait; for ever unless said.
        """
        timeout = None if timeout is None else waiting_time(timeout)
        until = None if timeout is None else time.monotonic() + timeout
        pause = _RESUMED_IN
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            snapshot = await self._ended(timeout, left)
            if snapshot is None:
                await self._find_again(until)
                continue
            if snapshot.state is not State.DEAD:
                return self._unpacked(snapshot)
            store, queue = (await self._app.session()).store, await self._found_queue()
            failure = await job_failure(store, queue, self.id, snapshot)
            if failure is not None:
                raise failure from failure.cause
            if left == 0:
                raise await self._app.result_timeout(self.id, queue, timeout or 0.0)
            # Its flow is being resumed: it is about to wait again.
            await asyncio.sleep(pause if left is None else min(pause, left))
            pause = min(2 * pause, _RESUMED_POLL)

    async def _ended(self, timeout: float | None, left: float | None) -> JobSnapshot | None:
        session = await self._app.session()
        try:
            return await session.waiter.wait(await self._found_queue(), self.job_id, left)
        except TimeoutError:
            queue = await self._found_queue()
            raise await self._app.result_timeout(self.id, queue, timeout or 0.0) from None

    def result_sync(self, timeout: Duration | None = None) -> R:
        """`result` for code without an event loop.

        Args:
            timeout: Seconds, or a timedelta, to wait; for ever unless said.
        """
        return self._app.portal.run(self.result(timeout))

    @explained_in_sync_code("job.status_sync()")
    async def status(self) -> State:
        """The state of the job; `JobNotFound` if the store does not know it."""
        return (await self._snapshot(bodies=False)).state

    def status_sync(self) -> State:
        """`status` for code without an event loop."""
        return self._app.portal.run(self.status())

    @explained_in_sync_code("job.info_sync()")
    async def info(self) -> JobInfo:
        """All that the store knows of the job."""
        snapshot = await self._snapshot(bodies=True)
        info = job_info(self.id, await self._found_queue(), snapshot)
        if snapshot.state is State.RUNNING:
            store = (await self._app.session()).store
            started = await run_started(store, snapshot.worker, self.job_id)
            return msgspec.structs.replace(info, started=started)
        if snapshot.state is not State.DONE or not snapshot.verdict:
            return info
        try:
            result = self._unpacked(snapshot)
        except ResultLost as lost:
            return msgspec.structs.replace(info, lost_result=lost.shown)
        except ResultUnreadable:
            return info
        return msgspec.structs.replace(info, result=result, result_kept=True)

    def info_sync(self) -> JobInfo:
        """`info` for code without an event loop."""
        return self._app.portal.run(self.info())

    @explained_in_sync_code("job.cancel_sync()")
    async def cancel(self) -> bool:
        """End the job, whatever state it is in: True if it is cancelled, by this call or before, or
        if it is running and its worker was asked to end it; False if it had ended otherwise.
        `JobNotFound` if the store does not know it."""
        store = (await self._app.session()).store
        state = await self._answered(lambda queue: store.cancel(queue, [self.job_id]))
        return state in (State.CANCELLED, State.RUNNING)

    def cancel_sync(self) -> bool:
        """`cancel` for code without an event loop."""
        return self._app.portal.run(self.cancel())

    async def progress(self) -> Progress | None:
        """The last `ctx.progress` of the job. None if there is none, or if the job has
        ended and the history does not have it any more; a dead job keeps it."""
        snapshot = await self._snapshot(bodies=False)
        if snapshot.state.final and not snapshot.progress:
            snapshot = await self._snapshot(bodies=True)
        return decode_progress(snapshot.progress)

    async def log(self) -> list[str]:
        """The last 1,000 lines that the job wrote with `ctx.log`, kept for a day after the last."""
        session = await self._app.session()
        return (await session.store.log(await self._found_queue(), self.job_id)).lines

    async def watch(self, *, poll: Duration = 1.0) -> AsyncGenerator[JobUpdate, None]:
        """The job's state, progress and new log lines: as they are now, then whenever something
        has changed, until it has ended. Progress and log lines come at once; other changes within
        `poll` seconds.

        Args:
            poll: Seconds between two looks, where the store has notified of no change before.
        """
        poll = check_seconds("watch(poll=)", poll, least=0.01)
        store = (await self._app.session()).store
        watch = JobWatch(store, await self._found_queue(), self.job_id, poll)
        async with aclosing(watch.updates()) as updates:
            async for update in updates:
                yield update

    async def _snapshot(self, *, bodies: bool) -> JobSnapshot:
        store = (await self._app.session()).store
        return await self._answered(lambda queue: store.get(queue, [self.job_id], bodies=bodies))

    async def _answered(self, ask: Callable[[str], Awaitable[Sequence[T | None]]]) -> T:
        """What the store answers for the job's queue, or for the one that it was moved to;
        `JobNotFound` if that is nothing."""
        (answer,) = await ask(await self._found_queue())
        if answer is None and await self._is_elsewhere():
            (answer,) = await ask(await self._found_queue())
        if answer is None:
            raise JobNotFound(self.id)
        return answer

    async def _is_elsewhere(self) -> bool:
        """Whether the store knows the job after all: people move jobs to other queues."""
        queue = await self._app.find_queue(self.job_id)
        self._queue = queue or self._queue
        return queue is not None

    async def _find_again(self, until: float | None) -> None:
        """Find the queue that the job was moved to. Without one, the store has forgotten it."""
        patient_until = min(time.monotonic() + _MOVED_IN, math.inf if until is None else until)
        pause = _RESUMED_IN
        while not await self._is_elsewhere():
            if time.monotonic() + pause > patient_until:
                queues = await (await self._app.session()).store.queues()
                raise (ResultExpired if self._queue in queues else JobNotFound)(self.id)
            await asyncio.sleep(pause)
            pause *= 2

    async def _found_queue(self) -> str:
        """The queue; a handle made from an id alone looks it up."""
        if self._queue is None:
            self._queue = await self._app.find_queue(self.job_id)
            if self._queue is None:
                raise JobNotFound(self.id)
        return self._queue

    def _unpacked(self, snapshot: JobSnapshot) -> R:
        value: R = unpacked_result(self._app, self.id, snapshot, self._returns)
        return value

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.job_id == self.job_id

    def __hash__(self) -> int:
        return hash(self.job_id)


def waiting_time(timeout: Duration) -> float:
    """The seconds to wait for a result; none if the time is over already."""
    return max(check_seconds("result(timeout=)", timeout, least=-math.inf), 0.0)


Send = Callable[[Call[Any]], Awaitable[Job[Any]]]
SendMany = Callable[[Sequence[Call[Any]]], Awaitable[list[Job[Any]]]]
