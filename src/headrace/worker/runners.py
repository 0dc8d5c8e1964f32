"""The three ways to run a function: on the event loop, in a thread, in a process."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any
from weakref import WeakSet

from headrace.client.context import running
from headrace.core.job import Reason
from headrace.core.judgement import Unfit
from headrace.worker.process import ProcessPool
from headrace.worker.run import Run

_forks = 0


_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def _count_fork() -> None:
    global _forks
    _forks += 1
    for loop in _loops:
        # A child that comes back to the loop would share its sockets with the worker.
        loop.call_soon(os._exit, 0)


os.register_at_fork(after_in_child=_count_fork)


def forks() -> int:
    """How many forks this process is away from the one that started: when it changes under a
    worker, this is no longer the worker but a child that a handler forked."""
    return _forks


class Encoded:
    """A result that is encoded already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Runners:
    """Runs the function of a prepared run where its task says."""

    def __init__(self, *, threads: int, processes: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="headrace-task")
        self._free_threads = asyncio.Semaphore(threads)
        self._processes = ProcessPool(processes)
        self._forks = forks()
        _loops.add(asyncio.get_running_loop())

    def start(self, run: Run) -> Awaitable[Any]:
        """The function's result, to be awaited. Not itself a coroutine: for a task on the loop this
        is the function's own, with nothing in between."""
        place = run.task.declared.run_in
        if place == "loop":
            return self._in_loop(run)
        return self._in_thread(run) if place == "thread" else self._in_process(run)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._processes.close()

    def _in_loop(self, run: Run) -> Awaitable[Any]:
        run.begin()
        running.set(run)
        task = run.task
        args, kwargs = run.args, run.kwargs
        if task.signature.injected_as is not None:
            args, kwargs = task.with_context(run.context(), args, kwargs)
        work: Awaitable[Any] = task.function(*args, **kwargs)
        return work

    async def _in_thread(self, run: Run) -> Any:
        async with self._free_threads:
            run.begin()
            running.set(run)
            # Made here, so that a cancellation reaches the context that the thread looks at.
            args, kwargs = run.task.with_context(run.context(), run.args, run.kwargs)
            work = partial(copy_context().run, run.task.function, *args, **kwargs)
            future = asyncio.get_running_loop().run_in_executor(self._threads, self._guarded, work)
            return _unguarded(await _to_the_end(future, run))

    def _guarded(self, work: partial[Any]) -> tuple[Any, BaseException | None]:
        """Called in the thread. StopIteration and its kind cannot pass through a future."""
        try:
            answer: tuple[Any, BaseException | None] = work(), None
        except BaseException as error:
            answer = None, error
        if forks() != self._forks:
            os._exit(0)
        return answer

    async def _in_process(self, run: Run) -> Encoded:
        return Encoded(await self._processes.run(run))


async def _to_the_end(future: asyncio.Future[Any], run: Run) -> Any:
    """Wait for a thread even if cancelled: its slot is not free before it ends. If the worker stops
    for good, the job is handed back and the wait is given up."""
    while True:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.cancelled() or run.sent_away:
                raise


def _unguarded(answer: tuple[Any, BaseException | None]) -> Any:
    value, error = answer
    if error is not None:
        raise error
    return finished(value)


def finished(value: Any) -> Any:
    """What a plain function returned, unless that is work that nobody has done."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise Unfit(
            Reason.BAD_RESULT,
            "the function returned a coroutine that was not awaited: make it async itself",
        )
    return value
