"""Functions of runs in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from typing import Any

from headrace.client.context import running
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.worker.run.fork_guard import end_if_forked
from headrace.worker.run.run import Run
from headrace.worker.threads.interruption import Answer, Interruptible
from headrace.worker.threads.thread_place import ThreadPlace
from headrace.worker.threads.thread_pool import ThreadCall

Ended = Callable[[Run, Any, BaseException | None], None]
"""Called with a run, and the value or the error of its function."""


class FunctionCall(Interruptible, ThreadCall):
    """The function of a run in a thread, with nothing around it."""

    __slots__ = ("_answer", "_ended", "_forks", "_run", "_variables")

    def __init__(self, run: Run, variables: Variables, forks: int, ended: Ended) -> None:
        # As its base does, without a call: there is one of these for each run.
        self._thread = []
        self._interrupted = False
        self._run = run
        self._variables = variables
        self._forks = forks
        self._ended = ended

    def perform(self) -> None:
        self._answer = self.run(self._variables.copy().run, self._call)
        end_if_forked(self._forks)

    def _call(self) -> Any:
        run = self._run
        run.begin()
        running.set(run)
        task, args, kwargs = run.task, run.args, run.kwargs
        if task.injects:
            args, kwargs = task.with_context(run.context(), args, kwargs)
        return task.function(*args, **kwargs)

    def ended(self, at: float) -> None:
        run = self._run
        run.ended = at
        self._ended(run, *self._answer)
        # They would keep each other until the garbage collector comes.
        run.thread_call = None


def _guarded(function: Interruptible, work: Callable[[], Any], since: int) -> Answer:
    """Called in the thread. StopIteration and its kind cannot pass through a future."""
    answer = function.run(work)
    end_if_forked(since)
    return answer


async def call_at(place: ThreadPlace, forks: int, run: Run) -> Any:
    """The result of the function, in a thread that is reserved for the run."""
    args, kwargs = run.task.with_context(run.context(), run.args, run.kwargs)
    variables = copy_context()
    variables.run(running.set, run)
    work = partial(variables.run, run.task.function, *args, **kwargs)
    function = Interruptible()
    run.thread_function = function
    future = place.call(partial(_guarded, function, work, forks))
    try:
        return _unguarded(await _to_the_end(future, run))
    finally:
        run.thread_function = None


async def _to_the_end(future: asyncio.Future[Any], run: Run) -> Any:
    """Wait for a thread even if cancelled: its slot is not free before it ends. If the worker stops
    for good, the job is handed back and the wait is given up."""
    while True:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.cancelled() or run.handed_back:
                raise


def _unguarded(answer: Answer) -> Any:
    value, error = answer
    if error is not None:
        raise error
    return finished(value)


def finished(value: Any) -> Any:
    """The return value of a plain function; `Unfit` if that is a coroutine that nobody awaited."""
    if value is not None and inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise Unfit(
            Reason.BAD_RESULT,
            "the function returned a coroutine that was not awaited: make it async itself",
        )
    return value
