"""The parts of a running worker: how they are wired, started, and stopped in the right order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from headrace.core.delivery import Delivery
from headrace.errors import StoreUnavailable
from headrace.store.contract import Consumer
from headrace.worker.admitter import Admitter
from headrace.worker.controller import Controller
from headrace.worker.courier import Courier
from headrace.worker.ending import WorkerOutcome
from headrace.worker.executor import Executor
from headrace.worker.heartbeat import Heartbeat
from headrace.worker.promoter import Promoter
from headrace.worker.reader import Reader
from headrace.worker.reclaimer import Reclaimer
from headrace.worker.registry import Registry
from headrace.worker.reporter import Reporter
from headrace.worker.runners import Runners
from headrace.worker.scheduler import Scheduler
from headrace.worker.service import Service
from headrace.worker.settler import Settler
from headrace.worker.slots import Slots
from headrace.worker.store_clock import StoreClock
from headrace.worker.voice import Voices

if TYPE_CHECKING:
    from headrace.worker.worker import Worker

log = logging.getLogger("headrace.worker")

_CANCEL_GRACE = 2.0
_FLUSH_GRACE = 5.0
_LEAVE_GRACE = 2.0


class Parts:
    """What one worker consists of while it runs."""

    def __init__(self, worker: Worker, consumer: Consumer, state: Any) -> None:
        app = worker.app
        self._consumer = consumer
        self._held: set[Delivery] = set()
        self._clock = StoreClock(app.store, app.clock)
        self._slots = Slots(worker.concurrency)
        self._reporter = Reporter(app.store, self._clock.now_ms)
        self._settler = Settler(consumer, self._held, self._reporter.before_settling)
        self._runners = Runners(
            threads=worker.threads, processes=worker.processes, middleware=app.middlewares
        )
        self._executor = self._made_executor(worker, state)
        self._reader = self._made_reader(worker)
        self._registry = self._made_registry(worker)
        self._heartbeat = self._made_heartbeat(worker)
        self._promoter = Promoter(consumer, worker.queues)
        self._courier = Courier(app.store, consumer, worker.queues)
        self._controller = Controller(app.store, consumer, worker.queues, self._executor.heed)
        self._rounds = (self._promoter, self._courier, self._controller)
        self._scheduler = Scheduler(app.store, app.schedules.declared, worker.name)
        self._services: tuple[Service, ...] = (
            self._settler,
            self._reporter,
            *self._rounds,
            self._scheduler,
            self._reader,
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _made_executor(self, worker: Worker, state: Any) -> Executor:
        app = worker.app
        return Executor(
            app.tasks,
            self._runners,
            Admitter(self._consumer),
            self._settler.put,
            self._slots,
            worker=worker.name,
            state=state,
            crash_limit=app.crash_limit,
            max_payload=app.max_payload,
            now_ms=self._clock.now_ms,
            events=app.events,
            voices=Voices(app.store, self._reporter, patience=app.lease),
        )

    def _made_reader(self, worker: Worker) -> Reader:
        reclaimer = Reclaimer(
            self._consumer, worker.queues, self._held, worker.app.lease, worker.app.crash_limit
        )
        return Reader(
            self._consumer,
            reclaimer,
            self._settler,
            self._slots,
            self._held,
            self._executor.start,
        )

    def _made_registry(self, worker: Worker) -> Registry:
        return Registry(
            worker.app.store,
            worker.name,
            worker.weights,
            strict=worker.strict,
            concurrency=worker.concurrency,
            lease=worker.app.lease,
            held=self._held,
            now_ms=self._clock.now_ms,
        )

    def _made_heartbeat(self, worker: Worker) -> Heartbeat:
        return Heartbeat(
            worker.app.store,
            self._clock,
            self._consumer,
            self._held,
            worker.app.lease,
            self._executor.stopper.lose,
            self._registry,
        )

    async def start(self) -> None:
        """Begin to work; if that fails, nothing is left behind."""
        try:
            await self._start()
        except BaseException:
            await self._runners.close()
            await self._sign_off()
            raise

    async def _start(self) -> None:
        await self._clock.compare()
        # A server that has just come back may still be loading its data; the heartbeat goes on.
        with contextlib.suppress(StoreUnavailable):
            await self._registry.beat()
        for rounds in self._rounds:
            await rounds.listen()
        await self._scheduler.listen()
        # Before the first job is taken: its task may be paused.
        await self._controller.step()
        self._heartbeat.start()
        for service in self._services:
            task = asyncio.create_task(service.run(), name=f"headrace-{service.name}")
            self._tasks[service.name] = task

    async def stop(self, drain: float, hurrying: asyncio.Event) -> WorkerOutcome:
        """Take nothing new, let run what runs, hand back the rest, write all outcomes, leave."""
        began = time.monotonic()
        await self._reader.interrupt(self._tasks["reader"], within=max(drain, 1.0))
        drain -= time.monotonic() - began
        self._executor.stopper.send_away(only_waiting=True)
        in_time = await self._runs_end(drain, hurrying)
        if not in_time:
            await self._cut_short()
        errors = await self._flush()
        # The settler last: what runs until then may still end jobs.
        for service in reversed(self._services[:-1]):
            await self._end(service)
        await self._leave()
        return WorkerOutcome(
            errors=errors,
            crashes=sum(service.crashes for service in self._services),
            timed_out=not in_time,
            lost_leases=self._settler.lost_leases,
        )

    async def _runs_end(self, within: float, hurrying: asyncio.Event) -> bool:
        ends_at = time.monotonic() + within
        # What is abandoned has its outcome: nobody waits for the thread that cannot be stopped.
        while futures := [run.future for run in self._executor.runs if not run.abandoned]:
            if hurrying.is_set() or time.monotonic() >= ends_at:
                return False
            await asyncio.wait(futures, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def _cut_short(self) -> None:
        self._executor.stopper.send_away(only_waiting=False)
        await self._runs_end(_CANCEL_GRACE, asyncio.Event())
        self._executor.stopper.abandon_all()

    async def _flush(self) -> int:
        """Wait until all outcomes are written; the number of those that could not be."""
        ends_at = time.monotonic() + _FLUSH_GRACE
        while self._settler.backlog and time.monotonic() < ends_at:
            self._settler.wake()
            await asyncio.sleep(0.01)
        if self._settler.backlog:
            log.error("%d outcomes could not be written", self._settler.backlog)
        return self._settler.backlog

    async def _end(self, service: Service) -> None:
        service.stop()
        task = self._tasks[service.name]
        try:
            async with asyncio.timeout(_FLUSH_GRACE):
                await asyncio.shield(task)
        except TimeoutError:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _leave(self) -> None:
        await self._runners.close()
        await self._heartbeat.stop()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LEAVE_GRACE):
                await self._reporter.flush()
                # What the last outcomes set free elsewhere: nobody else may work on these queues.
                await self._courier.last_round()
        await self._sign_off()

    async def _sign_off(self) -> None:
        """Leave no trace, as far as the store can be told; else the lease will tell the others."""
        leaving = [rounds.close() for rounds in self._rounds]
        leaving += [self._scheduler.close(), self._registry.leave(), self._consumer.close()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_GRACE):
                await asyncio.gather(*leaving, return_exceptions=True)
