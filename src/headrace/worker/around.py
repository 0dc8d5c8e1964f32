"""Takes runs through the app's middleware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core import codec
from headrace.middleware.wrapping import JobRun, Middleware, Proceed, running_through, that_run
from headrace.worker.run import Run

if TYPE_CHECKING:
    from headrace.client.task import Task
    from headrace.worker.process import TaskProcess


class Around:
    """False if there is no middleware that wraps runs."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        self._middleware = that_run(middleware)

    def __bool__(self) -> bool:
        return bool(self._middleware)

    async def function(self, run: Run, enter: Proceed) -> Any:
        """What `enter` gives in the end; the function is given what the middleware left of its
        arguments and its context."""
        if not self._middleware:
            return await enter()
        seen = JobRun(run.task, run.context(), run.args, run.kwargs)

        async def innermost() -> Any:
            run.args, run.kwargs = seen.args, seen.kwargs
            run.use(seen.context)
            return await enter()

        return await running_through(self._middleware, seen, innermost)()

    async def process(self, run: Run, process: TaskProcess) -> Any:
        """The same for a function elsewhere, whose arguments and result are not needed here
        otherwise."""

        async def enter() -> Any:
            run.changed, run.fed = run.task.signature.encode(run.args, run.kwargs), b""
            return _decoded(run.task, await process.run(run))

        return await self.function(run, enter)


def _decoded(task: Task[..., Any], data: bytes) -> Any:
    if not data:
        return None
    try:
        return codec.decoder(task.signature.returns)(data)
    except codec.DECODE_ERRORS:
        # Not what the task says that it returns, but it is what it returned.
        return codec.decoder(Any)(data)
