"""The parts of a running worker: how they are wired, started, and stopped in the right order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from headrace.client.topic.subscription import Subscription
from headrace.core.clock import skips_nothing
from headrace.errors import StoreFull, StoreUnavailable
from headrace.metrics.totals import Phase, Presence, Totals
from headrace.store.deaths import Deaths
from headrace.worker.app import WorkerApp
from headrace.worker.burst import BurstEnd
from headrace.worker.clock_moves import ClockMoves
from headrace.worker.consume.consumer_loops import ConsumerLoops, wait_briefly
from headrace.worker.consume.heartbeat import Heartbeat
from headrace.worker.group_services import GroupServices
from headrace.worker.logs.stop_log import StopLog
from headrace.worker.service import QueuePoller, Service, ended
from headrace.worker.settings import WorkerSettings, known_tasks
from headrace.worker.shared_services import SharedServices
from headrace.worker.upkeep.dead_jobs import DeadJobReporter, reporters_of
from headrace.worker.upkeep.flow_relay import FlowRelay
from headrace.worker.upkeep.janitor import Janitor
from headrace.worker.upkeep.registry import Registry
from headrace.worker.upkeep.scheduler import Scheduler
from headrace.worker.upkeep.stop_requests import StopRequests
from headrace.worker.upkeep.subscription_watch import SubscriptionWatch
from headrace.worker.upkeep.trimmer import report_leftovers
from headrace.worker.worker_outcome import WorkerOutcome

log = logging.getLogger("headrace.worker")

_END_GRACE = 5.0


class WorkerRuntime:
    """The consumer loops of one worker, which do the work, and the services that look after all of
    their queues. `hurrying` is set when running jobs are not to be waited for any more."""

    def __init__(
        self,
        app: WorkerApp,
        settings: WorkerSettings,
        state: Any,
        *,
        totals: Totals | None,
        phase: Callable[[], Phase],
        hurrying: asyncio.Event,
        stop: Callable[[float | None], None],
        torn_down: Callable[[], bool],
    ) -> None:
        self._app = app
        self._settings = settings
        self._phase = phase
        self._hurrying = hurrying
        self._shared = SharedServices(app, settings, state, totals, torn_down)
        self.failures, self.done = self._shared.failures, self._shared.done
        self.outage = self._shared.outage
        self._dead_jobs = self._make_dead_jobs()
        job_died = self._job_died if self._dead_jobs else None
        self.loops = ConsumerLoops(
            settings, self._shared, self._died, hurrying, self._died_in_store, job_died
        )
        self._registry = self._make_registry()
        self._groups = GroupServices(app, settings, self.loops, self._registry, self._add)
        self._watch = SubscriptionWatch(app, settings, self._groups)
        self._heartbeat = Heartbeat(
            app.store,
            self._shared.clock,
            lambda: self.loops.leases,
            app.lease,
            self.loops.lose,
            self._registry,
            self._record_starts if self._shared.start_recorder else None,
        )
        self._heartbeat.outage = self._shared.outage
        self._flow_relay = FlowRelay(
            app.store,
            self.loops.upkeep,
            settings.queues,
            on_deaths=self._died_in_store,
        )
        grouped = self._groups.services
        self._pollers = [each for each in grouped if isinstance(each, QueuePoller)]
        if settings.upkeep:
            self._pollers += [self._flow_relay, *self._dead_jobs]
        watched_ms = app.clock.now_ms() if skips_nothing(app.clock) else None
        self._scheduler = Scheduler(app.store, app.schedules, settings.name, watched_ms=watched_ms)
        self._clock_moves = ClockMoves(app.clock, self._clock_moved)
        self._stop_requests = StopRequests(app.store, settings.name, stop)
        self._services: list[Service] = [
            self._shared.progress_writer,
            *self._pollers,
            *([self._scheduler] if settings.schedules else []),
            *([Janitor(app.store, settings.queues)] if settings.upkeep else []),
            self._stop_requests,
            *(each for each in grouped if each not in self._pollers),
            self._watch,
        ]
        self.burst = BurstEnd(app.store, settings, self.loops, self._senders, lambda: stop(None))
        self._services += [self.burst] if settings.burst else []
        self._tasks: dict[Service, asyncio.Task[None]] = {}
        if totals is not None:
            self._heartbeat.observe = totals.counting_errors(None)
            totals.presence = self._presence

    async def _record_starts(self) -> None:
        if self._shared.start_recorder is not None:
            await self._shared.start_recorder.step(lambda: self.loops.running)

    def _senders(self) -> list[Service]:
        """The services that may let more jobs go."""
        return [*self._pollers, *([self._scheduler] if self._settings.schedules else [])]

    def _make_dead_jobs(self) -> Sequence[DeadJobReporter]:
        if not self._settings.upkeep:
            return ()
        return reporters_of(self._app, self._settings, self._shared.clock.now_ms)

    def _make_registry(self) -> Registry:
        settings = self._settings
        return Registry(
            self._app.store,
            settings.name,
            {**settings.weights, **dict.fromkeys(settings.group_queues, 1)},
            strict=settings.strict,
            concurrency=settings.concurrency,
            threads=settings.threads,
            processes=settings.processes,
            lease=self._app.lease,
            held=self._shared.held,
            now_ms=self._shared.clock.now_ms,
            runs=lambda: self.loops.runs,
            stopping=lambda: self._phase() == "stopping",
            queue_concurrency=settings.queue_concurrency,
            tasks=known_tasks(self._app),
        )

    def _presence(self) -> Presence:
        """For metrics and probes; asked from any thread."""
        return Presence(
            self._phase(),
            running=len(self._shared.held),
            slots=sum(loop.slots.total for loop in self.loops),
            lost_leases=self._tally().lost_leases,
            consumers=self._registry.consumers,
            blocked=self._heartbeat.blocked,
            silent=self._heartbeat.silent,
            broken=[f"the consumer of {loop.name}" for loop in self.loops if loop.failure],
        )

    def _died(self, subscription: Subscription[..., Any], queue: str) -> None:
        self._groups.died(subscription, queue)

    def _job_died(self, queue: str) -> None:
        for reporter in self._dead_jobs:
            reporter.died(queue)

    def _died_in_store(self, deaths: Sequence[Deaths]) -> None:
        self.failures.in_store.died(deaths)
        for queue in {each.queue for each in deaths}:
            self._job_died(queue)
            self._groups.died_in_store(queue)

    async def start(self) -> None:
        """Begin to work; if that fails, nothing is left behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop(0.0)
            raise

    async def _start(self) -> None:
        await self._shared.clock.compare()
        # A server that has just come back may still be loading its data, and one that is full needs
        # workers to empty it; the heartbeat goes on.
        try:
            await self._registry.beat()
            await report_leftovers(self._app.store, self._app.topics)
        except (StoreUnavailable, StoreFull) as error:
            if not error.retryable:
                raise
        for poller in self._pollers:
            await poller.listen()
        await self._watch.listen()
        for loop in self.loops:
            await loop.prepare()
        if self._settings.schedules:
            await self._scheduler.listen()
        await self._stop_requests.listen()
        self._heartbeat.start()
        self._clock_moves.start()
        for loop in self.loops:
            loop.start()
        for service in tuple(self._services):
            self._run(service)

    def _run(self, service: Service) -> None:
        shared = self._shared
        self._tasks[service] = service.begin(
            shared.outage, shared.noticed, shared.patience, service.name
        )

    def _add(self, service: Service) -> None:
        """Run one that had nothing to do at the start."""
        if isinstance(service, QueuePoller):
            self._pollers.append(service)
        self._services.append(service)
        self._run(service)

    async def stop(self, drain: float) -> WorkerOutcome:
        """Take nothing new, let running jobs end, hand back the rest, write all outcomes, leave;
        all loops at once. Errors on the way are counted, and keep nothing from ending."""
        ends_at = time.monotonic() + drain
        stop_log = StopLog(self._settings.name, lambda: self.loops.runs, ends_at)
        stop_log.begin()
        try:
            return await self._stop(ends_at)
        finally:
            stop_log.close()

    async def _clock_moved(self) -> None:
        """A test has moved the time. What runs here has been renewed meanwhile, so it is renewed
        before any worker looks for jobs whose lease is over."""
        await self._heartbeat.renew_all()
        for service in self._services:
            service.look_now()
        for loop in self.loops:
            loop.look_now()

    async def _stop(self, ends_at: float) -> WorkerOutcome:
        await self._clock_moves.stop()
        self._watch.close()
        self._watch.stop()
        self._groups.autoscaler.stop()
        crashes = await all_of(loop.drain(ends_at, self._hurrying) for loop in self.loops)
        if (watching := self._tasks.pop(self._watch, None)) is not None:
            # First: it may be starting others.
            crashes += await all_of([ended(self._watch, watching, _END_GRACE)])
        for service, task in reversed(self._tasks.items()):
            crashes += await all_of([ended(service, task, _END_GRACE)])
        # Again, for a loop that was just being added. Those that were being removed end first.
        crashes += await all_of(loop.drain(ends_at, self._hurrying) for loop in self.loops)
        await self._groups.autoscaler.drained()
        crashes += await all_of(loop.close() for loop in self.loops)
        crashes += await all_of([self._leave()])
        return self._tally() + WorkerOutcome(crashes=crashes)

    def _tally(self) -> WorkerOutcome:
        return self.loops.tally + WorkerOutcome(
            crashes=sum(service.crashes for service in self._services),
            unhandled_events=sum(handler.failed for handler in self._groups.dead_handlers.values()),
            left=self.burst.left,
        )

    async def _leave(self) -> None:
        await self._shared.runners.close()
        await self._heartbeat.stop()
        # What the last outcomes set free elsewhere: nobody else may work on these queues.
        await wait_briefly(self._shared.progress_writer.flush(), self._flow_relay.poll_all())
        # No trace is left, as far as the store answers; else the leases expire.
        await wait_briefly(
            *(poller.close() for poller in self._pollers),
            *(loop.leave() for loop in self.loops),
            self._scheduler.close(),
            self._stop_requests.close(),
            self._registry.remove_record(),
        )
        if not self._settings.weights:
            await wait_briefly(self.loops.upkeep.close())
        for trail in self._shared.trails:
            trail.close()
        self.failures.close()
        if self._shared.listeners is not None:
            await self._shared.listeners.close()
        await self._shared.observer.close()


async def all_of(works: Iterable[Awaitable[None]]) -> int:
    """Do all of it, whatever fails; the number of failures."""
    results = await asyncio.gather(*works, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in errors:
        log.error(
            "a part of the worker did not end well", exc_info=error, extra={"error": repr(error)}
        )
    return len(errors)
