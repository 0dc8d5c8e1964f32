"""What a running worker consists of: how it is wired, started, and stopped in the right order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.subscription import Subscription
from headrace.core.job.delivery import LeasedDelivery
from headrace.errors import StoreFull, StoreUnavailable
from headrace.metrics.totals import Presence
from headrace.store.contract import StoreConsumer
from headrace.worker.consume.consumer_loop import ConsumerLoop
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.consume.heartbeat import Heartbeat
from headrace.worker.queue_poller import QueuePoller
from headrace.worker.service import Service, ended
from headrace.worker.services import WorkerServices
from headrace.worker.together import all_of, in_time
from headrace.worker.upkeep.autoscaler import autoscaler_of
from headrace.worker.upkeep.dead_handlers import DeadHandlerCaller
from headrace.worker.upkeep.flow_relay import FlowRelay
from headrace.worker.upkeep.leftovers import report_leftovers
from headrace.worker.upkeep.presence import presence_of, registry_of
from headrace.worker.upkeep.promoter import Promoter
from headrace.worker.upkeep.scheduler import Scheduler
from headrace.worker.upkeep.trimmer import Trimmer
from headrace.worker.worker_outcome import WorkerOutcome

if TYPE_CHECKING:
    from headrace.worker.worker import Worker

log = logging.getLogger("headrace.worker")

_END_GRACE = 5.0


class WorkerRuntime:
    """The consumer loops of one worker, which do the work, and the services that look after all of
    their queues. Consumer loops of subscriptions may come and go meanwhile."""

    def __init__(self, worker: Worker, state: Any) -> None:
        self._worker = worker
        self._shared = WorkerServices(worker, state)
        self._dead_handlers = self._made_dead_handlers()
        self._makes = ConsumerLoops(worker, self._shared, self._died)
        self.loops: list[ConsumerLoop] = []
        self._groups: dict[ConsumerLoop, Subscription[..., Any]] = {}
        self.upkeep = self._made_loops()
        self._registry = registry_of(worker, self._shared, self.loops)
        self._heartbeat = self._made_heartbeat()
        store, queues = worker.app.store, worker.queues
        self._flow_relay = FlowRelay(store, self.upkeep, queues)
        self._pollers: tuple[QueuePoller, ...] = (
            Promoter(self.upkeep, [*queues, *worker.group_queues, *worker.logs]),
            self._flow_relay,
            *([Trimmer(store, worker.app.topics.values())] if worker.app.topics else []),
            *self._dead_handlers.values(),
        )
        self._scheduler = Scheduler(store, worker.app.schedules, worker.name)
        self._autoscaler = autoscaler_of(worker, self, self._registry.tell_consumers)
        self._services: tuple[Service, ...] = (
            self._shared.progress_writer,
            *self._pollers,
            self._scheduler,
            *([self._autoscaler] if worker.subscriptions else []),
        )
        if worker.totals is not None:
            self._heartbeat.observe = worker.totals.counting_errors(None)
            worker.totals.presence = self._presence
        self._tasks: dict[Service, asyncio.Task[None]] = {}
        self._former = WorkerOutcome()
        self._hurrying = worker.hurrying

    def _made_dead_handlers(self) -> dict[str, DeadHandlerCaller]:
        worker, app = self._worker, self._worker.app
        return {
            one.name: DeadHandlerCaller(app.store, one, one.dead_handler, worker.name, app.lease)
            for one in worker.subscriptions
            if one.dead_handler is not None
        }

    def _made_loops(self) -> StoreConsumer:
        """The first loops; and a consumer through which all queues are looked after."""
        worker = self._worker
        upkeep: StoreConsumer | None = None
        if worker.queues:
            self.loops.append(self._makes.of_jobs())
            upkeep = self.loops[0].upkeep
        for subscription in worker.subscriptions:
            least, _ = subscription.wants.scale or (1, 1)
            for _ in range(least):
                self._new_loop(subscription)
        self.loops += map(self._makes.of_broadcast, worker.broadcasts)
        return upkeep or self._makes.consumer(worker.name, ())

    def _new_loop(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        loop = self._makes.of_group(subscription)
        self.loops.append(loop)
        self._groups[loop] = subscription
        return loop

    def _made_heartbeat(self) -> Heartbeat:
        heartbeat = Heartbeat(
            self._worker.app.store,
            self._shared.clock,
            self.upkeep,
            (),
            self._worker.app.lease,
            self._lose,
            self._registry,
        )
        for loop in self.loops:
            heartbeat.keep(loop.consumer, loop.held)
        return heartbeat

    def _presence(self) -> Presence:
        return presence_of(
            self._worker.phase,
            self._shared,
            self.loops,
            self._tally(),
            self._registry,
            self._heartbeat,
        )

    def _lose(self, deliveries: Sequence[LeasedDelivery]) -> None:
        for loop in self.loops:
            loop.lose(deliveries)

    def _died(self, subscription: Subscription[..., Any], queue: str) -> None:
        self._dead_handlers[subscription.name].poll_soon(queue)

    # Consumer loops that come and go

    def loops_of(self, subscription: Subscription[..., Any]) -> list[ConsumerLoop]:
        """The loops that a subscription has here now."""
        return [loop for loop, one in self._groups.items() if one is subscription]

    async def add_loop(self, subscription: Subscription[..., Any]) -> ConsumerLoop:
        """Start one more consumer of a subscription; if that fails, nothing is left behind."""
        loop = self._new_loop(subscription)
        self._heartbeat.keep(loop.consumer, loop.held)
        try:
            await loop.prepare()
        except BaseException:
            await self.remove_loop(loop)
            raise
        loop.start()
        return loop

    async def remove_loop(self, loop: ConsumerLoop, drain: float | None = None) -> None:
        """End a loop: it takes nothing more, what it runs has so many seconds to end (the worker's
        drain by default), and what it counted is part of the worker's outcome. If this is cut
        short, the loop ends with the worker."""
        seconds = self._worker.drain if drain is None else drain
        await loop.drain(time.monotonic() + seconds, self._hurrying)
        await loop.close()
        await in_time(loop.leave())
        if loop in self.loops:
            self.loops.remove(loop)
            self._groups.pop(loop, None)
            self._heartbeat.let_go(loop.consumer)
            self._former += loop.tally

    # Its life

    async def start(self) -> None:
        """Begin to work; if that fails, nothing is left behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop(0.0, asyncio.Event())
            raise

    async def _start(self) -> None:
        await self._shared.clock.compare()
        # A server that has just come back may still be loading its data, and one that is full needs
        # workers to empty it; the heartbeat goes on.
        try:
            await self._registry.beat()
            await report_leftovers(self._worker.app.store, self._worker.app.topics)
        except (StoreUnavailable, StoreFull) as error:
            if not error.retryable:
                raise
        for poller in self._pollers:
            await poller.listen()
        for loop in self.loops:
            await loop.prepare()
        await self._scheduler.listen()
        self._heartbeat.start()
        for loop in self.loops:
            loop.start()
        for service in self._services:
            if self._shared.noticed is not None:
                service.observe = self._shared.noticed
            self._tasks[service] = asyncio.create_task(
                service.run(), name=f"headrace-{service.name}"
            )

    async def stop(self, drain: float, hurrying: asyncio.Event) -> WorkerOutcome:
        """Take nothing new, let run what runs, hand back the rest, write all outcomes, leave; all
        loops at once. Whatever goes wrong meanwhile is counted, and keeps nothing from ending."""
        self._hurrying = hurrying
        ends_at = time.monotonic() + drain
        self._autoscaler.stop()
        crashes = await all_of(loop.drain(ends_at, hurrying) for loop in self.loops)
        for service, task in reversed(self._tasks.items()):
            crashes += await all_of([ended(service, task, _END_GRACE)])
        # Retried, for a loop that was just being added; those that were being removed end first.
        crashes += await all_of(loop.drain(ends_at, hurrying) for loop in self.loops)
        await self._autoscaler.drained()
        crashes += await all_of(loop.close() for loop in self.loops)
        crashes += await all_of([self._leave()])
        return self._tally() + WorkerOutcome(crashes=crashes)

    def _tally(self) -> WorkerOutcome:
        outcome = self._former + WorkerOutcome(
            crashes=sum(service.crashes for service in self._services),
            failed=sum(dead_handler.failed for dead_handler in self._dead_handlers.values()),
        )
        for loop in self.loops:
            outcome += loop.tally
        return outcome

    async def _leave(self) -> None:
        await self._shared.runners.close()
        await self._heartbeat.stop()
        # What the last outcomes set free elsewhere: nobody else may work on these queues.
        await in_time(self._shared.progress_writer.flush(), self._flow_relay.poll_all())
        # No trace is left, as far as the store can be told; else the lease will tell the others.
        await in_time(
            *(poller.close() for poller in self._pollers),
            *(loop.leave() for loop in self.loops),
            self._scheduler.close(),
            self._registry.leave(),
        )
        if not self._worker.queues:
            await in_time(self.upkeep.close())
        for trail in self._shared.trails:
            trail.close()
        await self._shared.observer.close()
