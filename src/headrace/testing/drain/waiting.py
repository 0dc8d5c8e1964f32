"""What a test waits for in vain: jobs that nothing runs, a drain that is not awaited."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from headrace.client.send.queue_sender import RoomWait
from headrace.client.send.sync_use import marked
from headrace.client.session import ClientSession
from headrace.client.waiter import Waiter
from headrace.core.job.ids import JobId
from headrace.errors import ConfigError
from headrace.store.contract import JobSnapshot
from headrace.store.loop_local import LoopLocal

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

_TURN = 0.1
# Counted in turns of the loop: one that a breakpoint holds does not count. A test that does nothing
# but wait hears of it soon; beside other tasks, one of them may be about to drain.
_TURNS_ALONE = 10
_TURNS = 100


class TestedSessions(LoopLocal[ClientSession]):
    """The sessions of an app under test, whose waits end if nothing runs jobs."""

    __test__ = False

    def __init__(self, workers: Collection[object]) -> None:
        super().__init__()
        self._workers = workers

    def set(self, value: ClientSession) -> ClientSession:
        value.waiter = TestedWaiter(value.waiter, self._workers)
        value.sender.room_wait = _waiting_for_room(self._workers)
        return super().set(value)


class TestedWaiter(Waiter):
    """Waits for jobs as long as a worker or a drain runs, or may begin to."""

    __test__ = False

    def __init__(self, made: Waiter, workers: Collection[object]) -> None:
        super().__init__(made._store, made._max_reconnect)
        self._workers = workers

    async def wait(self, queue: str, job_id: JobId, timeout: float | None) -> JobSnapshot | None:
        """As a waiter; without a timeout, `ConfigError` if nothing runs jobs."""
        if timeout is not None:
            return await super().wait(queue, job_id, timeout)
        advice = (
            "call headrace.drain() before job.result(); what is due later needs "
            "headrace.clock.advance(…) before that"
        )
        async with _ended_without_workers(self._workers, advice):
            return await super().wait(queue, job_id, None)


def _waiting_for_room(workers: Collection[object]) -> RoomWait:
    """Ends the waits for room in a queue, if nothing runs jobs."""
    return lambda queue: _ended_without_workers(
        workers,
        f"queue {queue!r} is full and overflow='block' waits for room; call headrace.drain() "
        "before sending more",
    )


@asynccontextmanager
async def _ended_without_workers(workers: Collection[object], advice: str) -> AsyncIterator[None]:
    """Within it, one may wait as long as a worker or a drain runs, or may begin to; then this is a
    `ConfigError` with advice."""
    try:
        async with asyncio.timeout(None) as limit:
            watch = _watch(workers, limit, asyncio.current_task())
            watching = asyncio.create_task(watch, name="headrace-watch")
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        raise ConfigError(f"nothing runs jobs in a test: {advice}") from None


async def _watch(
    workers: Collection[object], limit: asyncio.Timeout, waiting: asyncio.Task[Any] | None
) -> None:
    turns = 0
    while turns < (_TURNS_ALONE if _is_alone(waiting) else _TURNS):
        await asyncio.sleep(_TURN)
        turns = 0 if workers else turns + 1
    limit.reschedule(asyncio.get_running_loop().time())


def _is_alone(waiting: asyncio.Task[Any] | None) -> bool:
    others = asyncio.all_tasks() - {waiting}
    return all(each.get_name().startswith("headrace-") for each in others)


class Asked:
    """The coroutines that a test was given."""

    def __init__(self) -> None:
        self._made: list[Any] = []

    def note(self, made: Coroutine[Any, Any, Any]) -> None:
        self._made.append(made)

    def forget(self) -> list[str]:
        """The names of those that were not awaited, which is no longer possible."""
        made, self._made = self._made, []
        left = [each for each in made if inspect.getcoroutinestate(each) == inspect.CORO_CREATED]
        for each in left:
            # Python would warn of each, in words that do not help.
            each.close()
        return list(dict.fromkeys(each.__name__ for each in left))


def must_be_awaited(method: F) -> F:
    """For an async method of an object with `_asked`, which then knows whether it was awaited."""

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        made = method(self, *args, **kwargs)
        self._asked.note(made)
        return made

    return marked(called)  # type: ignore[return-value]
