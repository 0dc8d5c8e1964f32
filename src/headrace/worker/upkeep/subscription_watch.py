"""Serves the subscriptions that are declared while a worker runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic import Topic
from headrace.errors import EventNotFound
from headrace.worker.app import WorkerApp
from headrace.worker.group_services import GroupServices
from headrace.worker.service import Service
from headrace.worker.settings import WorkerSettings

log = logging.getLogger("headrace.worker")

_SELDOM = 3600.0

AnySubscription = Subscription[..., Any]


class SubscriptionWatch(Service):
    """Looks when the app declares something. A worker of chosen queues serves no others."""

    name = "subscription watch"
    scope = "subscribe"

    def __init__(self, app: WorkerApp, settings: WorkerSettings, groups: GroupServices) -> None:
        super().__init__()
        self._app = app
        self._settings = settings
        self._groups = groups
        self._served: set[AnySubscription] = {*settings.subscriptions, *settings.broadcasts}
        self._kept: set[Topic[Any]] = set(app.topics.values())
        self._close: Callable[[], None] | None = None

    def listen(self) -> None:
        """Hear of declarations, which may come from any thread."""
        loop = asyncio.get_running_loop()
        self._close = self._app.new_declarations.listen(
            lambda: None if loop.is_closed() else _call(loop, self.wake)
        )

    def close(self) -> None:
        if self._close is not None:
            self._close()

    async def step(self) -> float:
        for topic in [one for one in self._app.topics.values() if one not in self._kept]:
            await self._groups.keep(topic)
            self._kept.add(topic)
        if self._settings.serves_all:
            await self._serve(self._declared("broadcasts"), self._groups.serve_broadcast)
            await self._serve(self._declared("subscriptions"), self._groups.serve)
        return _SELDOM

    def _declared(self, kind: str) -> Iterator[AnySubscription]:
        for topic in self._app.topics.values():
            yield from getattr(topic, kind).values()

    async def _serve(
        self,
        subscriptions: Iterable[AnySubscription],
        serve: Callable[[AnySubscription], Awaitable[None]],
    ) -> None:
        for one in [each for each in subscriptions if each not in self._served]:
            if self.stopping:
                return
            try:
                await serve(one)
            except EventNotFound as error:
                log.error("%r is not served: %s", *(one, error), extra={"subscription": one.name})
            else:
                log.info("%r is served from now on", one, extra={"subscription": one.name})
            self._served.add(one)


def _call(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        # Closed meanwhile: its worker has ended.
        return
