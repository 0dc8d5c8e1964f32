"""The three ways to run a function: on the event loop, in a thread, in a process."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from headrace.client.context import running
from headrace.client.fallback import Fallback
from headrace.client.task import Task
from headrace.client.topic.subscription import Subscription
from headrace.core import codec
from headrace.core.job.capacity import Runner
from headrace.middleware.nesting import running_through, wrapping_run
from headrace.middleware.views import JobRun
from headrace.middleware.wrapping import Middleware
from headrace.worker.processes.awaited_run import run_in_process
from headrace.worker.processes.process_pool import ProcessPool
from headrace.worker.run.fork_guard import forks, guard_loop
from headrace.worker.run.results import Encoded, ResultUnfit, is_needed
from headrace.worker.run.run import Run
from headrace.worker.threads.thread_function import Ended, FunctionCall, call_at
from headrace.worker.threads.thread_place import ThreadPlace
from headrace.worker.threads.thread_pool import ThreadPool

Enter = Callable[[Run], Awaitable[Any]]
CountStart = Callable[[Run], Awaitable[None]]
"""Returns when the start of a run with limits is counted; `GateClosed` if it may not start."""


class RunMiddleware:
    """Runs functions inside the app's middleware. False if none wraps runs."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        self._middleware = wrapping_run(middleware)
        self._only = self._middleware[0].wants if len(self._middleware) == 1 else None

    def __bool__(self) -> bool:
        return bool(self._middleware)

    def function(self, run: Run, enter: Enter) -> Awaitable[Any]:
        """The result of `enter`, to be awaited, inside the middleware, which may change arguments
        and context. Not itself a coroutine: a run that no middleware wants has nothing around
        it."""
        seen = JobRun(run)
        wanting = self._wanting(seen)
        if not wanting:
            return enter(run)
        return running_through(wanting, seen, partial(enter, run))()

    def _wanting(self, seen: JobRun) -> Sequence[Middleware]:
        if self._only is not None:
            # Most apps have one or none.
            return self._middleware if self._only(seen) else ()
        return [one for one in self._middleware if one.wants(seen)]

    async def process(self, run: Run, count_start: CountStart, pool: ProcessPool) -> Any:
        """The result of a function in a process, which is reserved for it: middleware begins when
        the function can. Without middleware, its arguments and result are not decoded here."""
        seen = JobRun(run)
        wanting = self._wanting(seen)
        if not wanting and not run.limited:
            return Encoded(await run_in_process(pool, run))
        async with pool.reserved() as process:
            run.queued_at = 0.0
            if run.limited:
                await count_start(run)
            if not wanting:
                return Encoded(await run_in_process(pool, run, process))

            async def enter() -> Any:
                run.encode_again()
                try:
                    return _decoded(run.task, await run_in_process(pool, run, process))
                except ResultUnfit as lost:
                    if is_needed(run):
                        raise
                    # The function has returned, which is what middleware is to see.
                    return lost

            run.begin()
            run.result_is_seen = True
            return await running_through(wanting, seen, enter)()


def _decoded(task: Task[..., Any], data: bytes) -> Any:
    if not data:
        return None
    try:
        return codec.decoder(task.signature.returns)(data)
    except codec.DECODE_ERRORS:
        # Not of the declared type, but it is what the task returned.
        return codec.decoder(Any)(data)


class Runners:
    """Runs the function of a prepared run where its task says."""

    def __init__(
        self,
        *,
        threads: int,
        processes: int,
        max_jobs_per_process: int | None = None,
        lets_processes_leave: bool = False,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.threads = ThreadPool(threads)
        self._variables = copy_context()
        self.processes = ProcessPool(
            processes, max_jobs=max_jobs_per_process, lets_leave=lets_processes_leave
        )
        self._middleware = RunMiddleware(middleware)
        self.wrapped = bool(self._middleware)
        """Whether middleware wraps runs, and sees their arguments."""
        self._forks = forks()
        guard_loop()

    def start(self, run: Run, count_start: CountStart) -> Awaitable[Any]:
        """The function's result, to be awaited. `count_start` is called right before a run with
        limits begins. Not itself a coroutine: for a plain task on the loop this is the function's
        own, with nothing in between."""
        place = run.task.declared.run_in
        if place != "loop":
            start = self._in_thread if place == "thread" else self._in_process
            return start(run, count_start)
        if run.limited:
            return self._in_loop(run, count_start)
        run.begin()
        running.set(run)
        return self._middleware.function(run, _call) if self.wrapped else _call(run)

    def start_directly(self, run: Run, ended: Ended) -> None:
        """Run a function in a thread or a process with nothing around it; `ended` is called on the
        loop."""
        run.queued_at = time.monotonic()
        if run.task.declared.run_in == "process":
            run.processes = self.processes
            self.processes.submit(run, partial(_ended_in_process, ended))
            return
        run.thread_call = call = FunctionCall(run, self._variables, self._forks, ended)
        self.threads.submit(call)

    def has_room_for(self, run: Run) -> bool:
        """Whether it can begin soon. Not asked for most: those of a runner that has no room are not
        fetched. But a sender of another version may have taken it for one that runs elsewhere."""
        return (
            isinstance(run.task, (Subscription, Fallback))
            or self.room(run.task.declared.run_in) > 0
        )

    def room(self, runner: Runner) -> int:
        """How many more functions of this runner would begin now or soon."""
        return self.threads.capacity() if runner == "thread" else self.processes.capacity()

    def when_freed(self, freed: Callable[[], None]) -> None:
        """Call `freed` on the loop when there may be more room."""
        self.threads.when_freed(freed)
        self.processes.when_freed(freed)

    def forget(self, freed: Callable[[], None]) -> None:
        self.threads.forget(freed)
        self.processes.forget(freed)

    def collect(self) -> None:
        """Take note of runs in threads that have ended."""
        self.threads.collect()

    def is_behind(self, run: Run) -> bool:
        """Whether a run that is queued waits for others to end."""
        if run.task.declared.run_in == "thread" or run not in self.processes:
            return not run.has_begun
        return self.processes.is_behind(run)

    def withdraw(self, run: Run) -> bool:
        """Take back a run of `start_directly` that has not begun; False if it has."""
        if run.processes is not None:
            return self.processes.withdraw(run)
        return run.thread_call is not None and self.threads.withdraw(run.thread_call)

    async def close(self) -> None:
        self.threads.close()
        await self.processes.close()

    async def _in_loop(self, run: Run, count_start: CountStart) -> Any:
        await count_start(run)
        run.begin()
        running.set(run)
        return await self._middleware.function(run, _call)

    async def _in_thread(self, run: Run, count_start: CountStart) -> Any:
        run.queued_at = time.monotonic()
        async with ThreadPlace(self.threads) as place:
            run.queued_at = 0.0
            if run.limited:
                await count_start(run)
            run.begin()
            running.set(run)
            # Made here, so that a cancellation reaches the context that the thread looks at.
            run.context()
            return await self._middleware.function(run, partial(call_at, place, self._forks))

    async def _in_process(self, run: Run, count_start: CountStart) -> Any:
        run.queued_at = time.monotonic()
        if self.wrapped or run.limited:
            return await self._middleware.process(run, count_start, self.processes)
        return Encoded(await run_in_process(self.processes, run))


def _ended_in_process(
    ended: Ended, run: Run, data: bytes | None, error: BaseException | None
) -> None:
    ended(run, None if data is None else Encoded(data), error)


def _call(run: Run) -> Awaitable[Any]:
    task = run.task
    args, kwargs = run.args, run.kwargs
    if task.injects:
        args, kwargs = task.with_context(run.context(), args, kwargs)
    work: Awaitable[Any] = task.function(*args, **kwargs)
    return work
