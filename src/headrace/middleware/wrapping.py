"""The shape of a middleware, and how several stand one inside the other."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from headrace.client.context import Context
from headrace.client.job import Job
from headrace.client.task import Task
from headrace.core.call import Call
from headrace.errors import ConfigError

Send = Callable[[Call[Any]], Awaitable[Job[Any]]]
Proceed = Callable[[], Awaitable[Any]]


class JobRun:
    """A run that is about to begin. What is set here is what the function gets: other arguments,
    another context. Of a batch task `args` is the list of its items, and the context that of the
    first of its jobs."""

    __slots__ = ("args", "context", "kwargs", "task")

    def __init__(
        self,
        task: Task[..., Any],
        context: Context,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.task = task
        self.context = context
        self.args = args
        self.kwargs = kwargs


class Middleware:
    """Wraps what an app sends and runs: override `send`, `run` or both, and hand an instance to
    `app.middleware(...)`. One that raises fails the job at hand, and no other."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        """Around each call that is sent: may send another one, or raise instead."""
        return await send(call)

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        """Around each run, from when the function may be entered: `proceed()` enters it and gives
        what it returned. What this returns is the result; what it raises is judged as if the task
        had raised it, `RetryLater`, `Reject` and `Defer` included. Of a batch task this is called
        once per batch."""
        return await proceed()


def check(middleware: object) -> Middleware:
    if not isinstance(middleware, Middleware):
        raise ConfigError(
            f"app.middleware() takes instances of headrace.Middleware, not {middleware!r}"
        )
    for name in ("send", "run"):
        if not inspect.iscoroutinefunction(getattr(middleware, name)):
            raise ConfigError(f"{type(middleware).__name__}.{name} must be an async function")
    return middleware


def that_send(middleware: Sequence[Middleware]) -> list[Middleware]:
    """Those that do something about sending."""
    return [one for one in middleware if type(one).send is not Middleware.send]


def that_run(middleware: Sequence[Middleware]) -> list[Middleware]:
    """Those that do something about running."""
    return [one for one in middleware if type(one).run is not Middleware.run]


def sending_through(middleware: Sequence[Middleware], send: Send) -> Send:
    """`send` inside of these, the first outermost."""
    for one in reversed(middleware):
        send = _sending_through(one, send)
    return send


def _sending_through(one: Middleware, send: Send) -> Send:
    return lambda call: one.send(call, send)


def running_through(middleware: Sequence[Middleware], run: JobRun, proceed: Proceed) -> Proceed:
    """`proceed` inside of these, the first outermost."""
    for one in reversed(middleware):
        proceed = partial(one.run, run, proceed)
    return proceed
