"""Takes runs through the app's middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.core import codec
from headrace.middleware.nesting import running_through, that_run
from headrace.middleware.views import JobRun
from headrace.middleware.wrapping import Middleware
from headrace.worker.run.outcomes import Encoded
from headrace.worker.run.run import Run

if TYPE_CHECKING:
    from headrace.client.task import Task
    from headrace.worker.processes.process_pool import TaskProcess

Enter = Callable[[Run], Awaitable[Any]]


class RunMiddleware:
    """False if there is no middleware that wraps runs."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        self._middleware = that_run(middleware)
        self._only = self._middleware[0].wants if len(self._middleware) == 1 else None

    def __bool__(self) -> bool:
        return bool(self._middleware)

    def function(self, run: Run, enter: Enter) -> Awaitable[Any]:
        """What `enter` gives in the end, to be awaited; the function is given what the middleware
        left of its arguments and its context. Not itself a coroutine: a run that no middleware
        wants has nothing around it."""
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

    async def process(self, run: Run, process: TaskProcess) -> Any:
        """The same for a function elsewhere, whose arguments and result are not needed here
        otherwise."""
        seen = JobRun(run)
        wanting = self._wanting(seen)
        if not wanting:
            return Encoded(await process.run(run))

        async def enter() -> Any:
            run.encode_again()
            return _decoded(run.task, await process.run(run))

        return await running_through(wanting, seen, enter)()


def _decoded(task: Task[..., Any], data: bytes) -> Any:
    if not data:
        return None
    try:
        return codec.decoder(task.signature.returns)(data)
    except codec.DECODE_ERRORS:
        # Not what the task says that it returns, but it is what it returned.
        return codec.decoder(Any)(data)
