"""Serves subscriptions that are declared, and topics that appear, while a worker runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from headrace.client.topic.pattern_subscription import PatternSubscription
from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic import Topic
from headrace.core.queue_names import log_source
from headrace.errors import ConfigError, EventNotFound
from headrace.worker.app import WorkerApp
from headrace.worker.group_services import GroupServices
from headrace.worker.service import Service
from headrace.worker.settings import PatternChoice, WorkerSettings

log = logging.getLogger("headrace.worker")

_SELDOM = 3600.0
# A topic that nobody declares here shows in the store alone.
_LOOK = 2.0

AnySubscription = Subscription[..., Any]


class SubscriptionWatch(Service):
    """Looks when the app declares something and, for subscriptions to several topics, every few
    seconds for topics in the store. A worker of chosen queues serves no others."""

    name = "subscription watch"
    scope = "subscribe"

    def __init__(self, app: WorkerApp, settings: WorkerSettings, groups: GroupServices) -> None:
        super().__init__()
        self._app = app
        self._settings = settings
        self._groups = groups
        self._served: set[AnySubscription] = {*settings.subscriptions, *settings.broadcasts}
        self._queues = set(settings.group_queues)
        self._refused: dict[PatternSubscription[..., Any], set[str]] = {}
        self._noted_until: dict[AnySubscription, float] = {}
        self._kept: set[Topic[Any]] = set(app.topics.values())
        self._close: Callable[[], None] | None = None

    async def listen(self) -> None:
        """Hear of declarations, which may come from any thread. Topics that appear from now on are
        new to the subscriptions."""
        await self._note(self._choices())
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
        await self._serve(self._wanted(), self._groups.serve)
        choices = self._choices()
        if not choices:
            return _SELDOM
        await self._note(choices)
        await self._serve(await self._undeclared(choices), self._groups.serve)
        return _LOOK

    def _choices(self) -> list[PatternChoice]:
        if not self._settings.serves_all:
            return list(self._settings.patterns)
        return [PatternChoice(one, each) for one in self._app.patterns for each in one.patterns]

    def _wanted(self) -> Iterator[AnySubscription]:
        """Subscriptions to declared topics. One that was served before its topic was declared goes
        on as it is."""
        for one in self._declared("subscriptions"):
            wanted = self._settings.serves_all or any(
                choice.has(one) for choice in self._settings.patterns
            )
            if wanted and self._queues.isdisjoint(one.queues):
                yield one

    async def _undeclared(self, choices: Sequence[PatternChoice]) -> list[AnySubscription]:
        """Subscriptions to logs in the store that have come since the last look. The shards of a
        topic may come one after the other."""
        logs: dict[str, list[str]] = {}
        for name in await self._app.store.logs():
            topic, _ = log_source(name)
            if topic not in self._app.topics:
                logs.setdefault(topic, []).append(name)
        found: list[AnySubscription] = []
        for topic, names in logs.items():
            for subscription in {each.subscription for each in choices if each.meets(topic)}:
                group = subscription.wants.group
                new = [name for name in names if f"{group}{name}" not in self._queues]
                if new and topic not in self._refused.get(subscription, ()):
                    found += self._bound(subscription, topic, new)
        return found

    def _bound(
        self, subscription: PatternSubscription[..., Any], topic: str, logs: Sequence[str]
    ) -> list[AnySubscription]:
        """One that does not fit the topic is in the way of no other."""
        try:
            return [subscription.bind_undeclared(logs)]
        except ConfigError as error:
            self._refused.setdefault(subscription, set()).add(topic)
            problem = f"{error}. Declare the topic here, or give app.subscribe() event="
            log.error("%r is not served: %s", *(subscription, problem), extra={"topic": topic})
            return []

    async def _note(self, choices: Sequence[PatternChoice]) -> None:
        """At first and now and then, have the store note since when these are there."""
        now = time.monotonic()
        for subscription in {choice.subscription for choice in choices}:
            if self._noted_until.get(subscription, 0.0) <= now:
                await subscription.keep(self._app.store)
                self._noted_until[subscription] = now + _SELDOM

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
            if not one.wants.broadcast:
                self._queues.update(one.queues)


def _call(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        # Closed meanwhile: its worker has ended.
        return
