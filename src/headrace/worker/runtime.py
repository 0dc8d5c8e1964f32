"""The parts of a running worker: how they are wired, started, and stopped in the right order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.subscription import Subscription
from headrace.core.job.delivery import Delivery
from headrace.errors import StoreFull, StoreUnavailable
from headrace.metrics.totals import Presence
from headrace.store.contract import StoreConsumer
from headrace.worker.consume.consumer_loop import Line
from headrace.worker.consume.consumer_loops import Lines
from headrace.worker.consume.heartbeat import Heartbeat
from headrace.worker.queue_poller import Rounds
from headrace.worker.service import Service, ended
from headrace.worker.services import Workshop
from headrace.worker.together import all_of, in_time
from headrace.worker.upkeep.autoscaler import autoscaler_of
from headrace.worker.upkeep.dead_handlers import Mourner
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


class Parts:
    """What one worker consists of while it runs: lines, which do the work, and services that look
    after all of their queues. Lines of subscriptions may come and go meanwhile."""

    def __init__(self, worker: Worker, state: Any) -> None:
        self._worker = worker
        self._shop = Workshop(worker, state)
        self._mourners = self._made_mourners()
        self._makes = Lines(worker, self._shop, self._died)
        self.lines: list[Line] = []
        self._groups: dict[Line, Subscription[..., Any]] = {}
        self.upkeep = self._made_lines()
        self._registry = registry_of(worker, self._shop, self.lines)
        self._heartbeat = self._made_heartbeat()
        store, queues = worker.app.store, worker.queues
        self._flow_relay = FlowRelay(store, self.upkeep, queues)
        self._rounds: tuple[Rounds, ...] = (
            Promoter(self.upkeep, [*queues, *worker.group_queues, *worker.logs]),
            self._flow_relay,
            *([Trimmer(store, worker.app.topics.values())] if worker.app.topics else []),
            *self._mourners.values(),
        )
        self._scheduler = Scheduler(store, worker.app.schedules, worker.name)
        self._autoscaler = autoscaler_of(worker, self, self._registry.tell_consumers)
        self._services: tuple[Service, ...] = (
            self._shop.reporter,
            *self._rounds,
            self._scheduler,
            *([self._autoscaler] if worker.subscriptions else []),
        )
        if worker.totals is not None:
            self._heartbeat.observe = worker.totals.noticing(None)
            worker.totals.presence = self._presence
        self._tasks: dict[Service, asyncio.Task[None]] = {}
        self._former = WorkerOutcome()
        self._hurrying = worker.hurrying

    def _made_mourners(self) -> dict[str, Mourner]:
        worker, app = self._worker, self._worker.app
        return {
            one.name: Mourner(app.store, one, one.dead_handler, worker.name, app.lease)
            for one in worker.subscriptions
            if one.dead_handler is not None
        }

    def _made_lines(self) -> StoreConsumer:
        """The first lines; and a consumer through which all queues are looked after."""
        worker = self._worker
        upkeep: StoreConsumer | None = None
        if worker.queues:
            self.lines.append(self._makes.of_jobs())
            upkeep = self.lines[0].upkeep
        for subscription in worker.subscriptions:
            least, _ = subscription.wants.scale or (1, 1)
            for _ in range(least):
                self._new_line(subscription)
        self.lines += map(self._makes.of_broadcast, worker.broadcasts)
        return upkeep or self._makes.consumer(worker.name, ())

    def _new_line(self, subscription: Subscription[..., Any]) -> Line:
        line = self._makes.of_group(subscription)
        self.lines.append(line)
        self._groups[line] = subscription
        return line

    def _made_heartbeat(self) -> Heartbeat:
        heartbeat = Heartbeat(
            self._worker.app.store,
            self._shop.clock,
            self.upkeep,
            (),
            self._worker.app.lease,
            self._lose,
            self._registry,
        )
        for line in self.lines:
            heartbeat.keep(line.consumer, line.held)
        return heartbeat

    def _presence(self) -> Presence:
        return presence_of(
            self._worker.phase,
            self._shop,
            self.lines,
            self._tally(),
            self._registry,
            self._heartbeat,
        )

    def _lose(self, deliveries: Sequence[Delivery]) -> None:
        for line in self.lines:
            line.lose(deliveries)

    def _died(self, subscription: Subscription[..., Any], queue: str) -> None:
        self._mourners[subscription.name].call(queue)

    # Lines that come and go

    def lines_of(self, subscription: Subscription[..., Any]) -> list[Line]:
        """The lines that a subscription has here now."""
        return [line for line, one in self._groups.items() if one is subscription]

    async def add_line(self, subscription: Subscription[..., Any]) -> Line:
        """Start one more consumer of a subscription; if that fails, nothing is left behind."""
        line = self._new_line(subscription)
        self._heartbeat.keep(line.consumer, line.held)
        try:
            await line.prepare()
        except BaseException:
            await self.remove_line(line)
            raise
        line.start()
        return line

    async def remove_line(self, line: Line, drain: float | None = None) -> None:
        """End a line: it takes nothing more, what it runs has so many seconds to end (the worker's
        drain by default), and what it counted is part of the worker's outcome. If this is cut
        short, the line ends with the worker."""
        seconds = self._worker.drain if drain is None else drain
        await line.drain(time.monotonic() + seconds, self._hurrying)
        await line.close()
        await in_time(line.leave())
        if line in self.lines:
            self.lines.remove(line)
            self._groups.pop(line, None)
            self._heartbeat.let_go(line.consumer)
            self._former += line.tally

    # Its life

    async def start(self) -> None:
        """Begin to work; if that fails, nothing is left behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop(0.0, asyncio.Event())
            raise

    async def _start(self) -> None:
        await self._shop.clock.compare()
        # A server that has just come back may still be loading its data, and one that is full needs
        # workers to empty it; the heartbeat goes on.
        try:
            await self._registry.beat()
            await report_leftovers(self._worker.app.store, self._worker.app.topics)
        except (StoreUnavailable, StoreFull) as error:
            if not error.retryable:
                raise
        for rounds in self._rounds:
            await rounds.listen()
        for line in self.lines:
            await line.prepare()
        await self._scheduler.listen()
        self._heartbeat.start()
        for line in self.lines:
            line.start()
        for service in self._services:
            if self._shop.noticed is not None:
                service.observe = self._shop.noticed
            self._tasks[service] = asyncio.create_task(
                service.run(), name=f"headrace-{service.name}"
            )

    async def stop(self, drain: float, hurrying: asyncio.Event) -> WorkerOutcome:
        """Take nothing new, let run what runs, hand back the rest, write all outcomes, leave; all
        lines at once. Whatever goes wrong meanwhile is counted, and keeps nothing from ending."""
        self._hurrying = hurrying
        ends_at = time.monotonic() + drain
        self._autoscaler.stop()
        crashes = await all_of(line.drain(ends_at, hurrying) for line in self.lines)
        for service, task in reversed(self._tasks.items()):
            crashes += await all_of([ended(service, task, _END_GRACE)])
        # Again, for a line that was just being added; those that were being removed end first.
        crashes += await all_of(line.drain(ends_at, hurrying) for line in self.lines)
        await self._autoscaler.drained()
        crashes += await all_of(line.close() for line in self.lines)
        crashes += await all_of([self._leave()])
        return self._tally() + WorkerOutcome(crashes=crashes)

    def _tally(self) -> WorkerOutcome:
        outcome = self._former + WorkerOutcome(
            crashes=sum(service.crashes for service in self._services),
            failed=sum(mourner.failed for mourner in self._mourners.values()),
        )
        for line in self.lines:
            outcome += line.tally
        return outcome

    async def _leave(self) -> None:
        await self._shop.runners.close()
        await self._heartbeat.stop()
        # What the last outcomes set free elsewhere: nobody else may work on these queues.
        await in_time(self._shop.reporter.flush(), self._flow_relay.last_round())
        # No trace is left, as far as the store can be told; else the lease will tell the others.
        await in_time(
            *(rounds.close() for rounds in self._rounds),
            *(line.leave() for line in self.lines),
            self._scheduler.close(),
            self._registry.leave(),
        )
        if not self._worker.queues:
            await in_time(self.upkeep.close())
        for trail in self._shop.trails:
            trail.close()
        await self._shop.observer.close()
