"""`ClientApp`: what tasks, topics and schedules need of the app that declares them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from headrace.client.context import Context
from headrace.client.job import Job, JobApp
from headrace.core.clock import Clock
from headrace.core.task.call import Call
from headrace.core.task.rate import QueueSettings

Send = Callable[[Call[Any]], Awaitable[Job[Any]]]
SendMany = Callable[[Sequence[Call[Any]]], Awaitable[list[Job[Any]]]]


class ClientApp(JobApp, Protocol):
    """An app as its tasks, topics and schedules see it. `Headrace` is one."""

    @property
    def clock(self) -> Clock: ...

    @property
    def queue_settings(self) -> Mapping[str, QueueSettings]: ...

    @property
    def sending(self) -> Callable[[Send], Send] | None:
        """Puts a send inside of the app's middleware; None if no middleware has a `send`."""

    @property
    def publishing(self) -> Callable[[Any], Any] | None:
        """Puts a publish inside of the app's middleware; None if no middleware has a `publish`."""

    async def enqueue(self, step: Call[Any], /) -> Job[Any]:
        """Send one call through the app's middleware."""
        ...

    def job(self, id: str) -> Job[Any]:
        """The handle of a job whose id is known."""
        ...

    def enter_middleware(self, context: Context) -> AbstractContextManager[object]:
        """Enter `Middleware.within` of all, around a function in a process of its own."""
        ...
