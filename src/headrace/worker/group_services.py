"""What looks after the groups and topics of a worker, also of those that come while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace.client.topic.subscription import Subscription
from headrace.client.topic.topic import Topic
from headrace.worker.app import WorkerApp
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.service import Service
from headrace.worker.settings import WorkerSettings
from headrace.worker.upkeep.autoscaler import Autoscaler, autoscaler_of, consumers_of
from headrace.worker.upkeep.dead_handlers import DeadHandlerCaller
from headrace.worker.upkeep.promoter import Promoter
from headrace.worker.upkeep.registry import Registry
from headrace.worker.upkeep.trimmer import Trimmer


class GroupServices:
    """The services that have something to do for each group or log. `start` starts a service that
    was not there when the worker started."""

    def __init__(
        self,
        app: WorkerApp,
        settings: WorkerSettings,
        loops: ConsumerLoops,
        registry: Registry,
        start: Callable[[Service], None],
    ) -> None:
        self._app = app
        self._settings = settings
        self._loops = loops
        self._registry = registry
        self._start = start
        # Every worker looks after the logs of all topics, also of those that it does not read.
        logs = [name for topic in app.topics.values() for name in topic.logs]
        queues = [*settings.queues, *settings.group_queues, *logs]
        self.promoter = Promoter(loops.upkeep, queues)
        self.trimmer = Trimmer(app.store, app.topics.values())
        self.autoscaler: Autoscaler = autoscaler_of(
            app.store, settings, loops, registry.set_consumers, app.scaling_strategy
        )
        self.dead_handlers: dict[str, DeadHandlerCaller] = {}
        """By subscription."""
        for one in settings.subscriptions:
            self._add_dead_handler(one)
        self.services: list[Service] = [*self.dead_handlers.values()]
        """Those that have anything to do."""
        if settings.upkeep:
            self.services += [self.promoter, *([self.trimmer] if app.topics else [])]
        if settings.subscriptions:
            self.services.append(self.autoscaler)

    def died(self, subscription: Subscription[..., Any], queue: str) -> None:
        """An event of the group went dead."""
        if subscription.name in self.dead_handlers:
            self.dead_handlers[subscription.name].poll_soon(queue)

    def died_in_store(self, queue: str) -> None:
        """An event went dead without a run, if it is the queue of a group."""
        for handler in self.dead_handlers.values():
            handler.poll_soon(queue)

    async def serve(self, subscription: Subscription[..., Any]) -> None:
        """Read one more group; if that fails, nothing is left behind but what may be tried
        again."""
        caller = self.dead_handlers.get(subscription.name)
        if caller is None and (caller := self._add_dead_handler(subscription)) is not None:
            await caller.listen()
            self._run(caller)
        await self._promote([*subscription.queues, *subscription.topic.logs])
        # One: the autoscaler adds the others.
        await self._loops.add(subscription)
        self._registry.add_queues(subscription.queues)
        self.autoscaler.add(
            consumers_of(subscription, self._settings, self._loops, self._app.scaling_strategy)
        )
        self._run(self.autoscaler)

    async def serve_broadcast(self, subscription: Subscription[..., Any]) -> None:
        await self._loops.add_broadcast(subscription)

    async def keep(self, topic: Topic[Any]) -> None:
        """Promote and trim the logs of one more topic."""
        await self._promote(topic.logs)
        if self._settings.upkeep:
            await self.trimmer.add_topic(topic)
            self._run(self.trimmer)

    def _run(self, service: Service) -> None:
        if service not in self.services:
            self.services.append(service)
            self._start(service)

    async def _promote(self, queues: Iterable[str]) -> None:
        for queue in queues if self._settings.upkeep else ():
            await self.promoter.add(queue)

    def _add_dead_handler(self, one: Subscription[..., Any]) -> DeadHandlerCaller | None:
        if one.dead_handler is None or not self._settings.upkeep:
            return None
        app, worker = self._app, self._settings.name
        caller = DeadHandlerCaller(app.store, one, one.dead_handler, worker, app.lease)
        self.dead_handlers[one.name] = caller
        return caller
