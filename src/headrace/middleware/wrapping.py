"""The shape of a middleware."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from headrace.client.context import Context
from headrace.client.job import Job, Send, SendMany
from headrace.client.topic.publication import Publication, Publish, PublishOutcome
from headrace.core.task.call import Call
from headrace.errors import ConfigError
from headrace.middleware.views import JobRun, Received

Proceed = Callable[[], Awaitable[Any]]


class Middleware:
    """Wraps what an app sends and runs: override `send`, `run` or others of these, and hand an
    instance to `app.middleware(...)`. One that raises fails the job at hand, and no other."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        """Around each call that is sent: may send another one, or raise instead.

        Args:
            call: What is sent.
            send: Sends a call, through what is inside of this.
        """
        return await send(call)

    async def send_many(self, calls: Sequence[Call[Any]], send: SendMany) -> list[Job[Any]]:
        """Around calls that are sent together: up to 500 of an `enqueue_many`, or all of a flow,
        whose number must not change. A middleware without this gets them one by one in `send`, and
        so do those inside of it.

        Args:
            calls: What is sent together.
            send: Sends calls, through what is inside of this.
        """
        return await send(calls)

    async def publish(self, publication: Publication, publish: Publish) -> PublishOutcome[Any]:
        """Around each publish, and around up to 500 events of a `publish_many`: may change the
        events and their options, or raise instead. What could not be published is in the outcome,
        and not raised.

        Args:
            publication: The topic, the events and their options.
            publish: Publishes them, through what is inside of this.
        """
        return await publish(publication)

    def received(self, received: Received) -> None:
        """Called after each read of a worker that brought something, before any of it runs.

        Args:
            received: What the read brought.
        """

    def wants(self, run: JobRun) -> bool:
        """Whether `run` is to be called for this run; asked in its own context, right before. One
        that nobody wants is as fast as without middleware.

        Args:
            run: The job at hand.
        """
        return True

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        """Around each run, from when the function may be entered: `proceed()` enters it and gives
        what it returned. What this returns is the result; what it raises is judged as if the task
        had raised it, `RetryLater`, `Reject` and `Defer` included. Of a batch task this is called
        once per batch.

        Args:
            run: The job at hand.
            proceed: Enters the function, through what is inside of this.
        """
        return await proceed()

    def within(self, context: Context) -> AbstractContextManager[object]:
        """Entered around the function of a task with `run_in="process"`, in that process.

        Args:
            context: The context of the run, in its process.
        """
        return nullcontext()


_ASYNC = ("send", "send_many", "publish", "run")
_PLAIN = ("received", "wants", "within")


def check(middleware: object) -> Middleware:
    if not isinstance(middleware, Middleware):
        raise ConfigError(
            f"app.middleware() takes instances of headrace.Middleware, not {middleware!r}"
        )
    for name in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(middleware, name)):
            raise ConfigError(f"{type(middleware).__name__}.{name} must be an async function")
    for name in _PLAIN:
        if inspect.iscoroutinefunction(getattr(middleware, name)):
            raise ConfigError(f"{type(middleware).__name__}.{name} must not be an async function")
    return middleware


def overrides(middleware: Middleware, *names: str) -> bool:
    """Whether it overrides one of these methods."""
    kind = type(middleware)
    return any(getattr(kind, name) is not getattr(Middleware, name) for name in names)
