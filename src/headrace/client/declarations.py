"""`DeclaredApp`: an app with its tasks, topics and schedules, as workers and the admin see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from headrace.client.app import ClientApp
from headrace.client.fallback import Fallback
from headrace.client.schedules import Schedules
from headrace.client.task import Task
from headrace.client.topic.pattern_subscription import PatternSubscription
from headrace.client.topic.topic import Topic
from headrace.store.contract import Store


class DeclaredApp(ClientApp, Protocol):
    """What `worker/app.py` and `admin/app.py` have in common. `Headrace` is one."""

    @property
    def url(self) -> str: ...

    @property
    def shown_url(self) -> str:
        """The store's URL for people."""

    @property
    def namespace(self) -> str: ...

    @property
    def lease(self) -> float: ...

    @property
    def unknown_task_after(self) -> timedelta:
        """How long a job waits for a worker that knows its task, before it is dead."""

    @property
    def last_resort(self) -> Fallback | None:
        """Gets jobs of unknown tasks after that time."""

    @property
    def store(self) -> Store: ...

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...

    @property
    def topics(self) -> Mapping[str, Topic[Any]]: ...

    @property
    def patterns(self) -> Sequence[PatternSubscription[..., Any]]: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def queues(self) -> list[str]:
        """The queues that the declared tasks use, and those that are declared themselves."""

    async def close(self) -> None:
        """Close what this event loop holds; the app may be used again."""
