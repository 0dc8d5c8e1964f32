"""One consumer of a worker: reads some queues, runs what it reads, writes the outcomes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.job.capacity import Runner
from headrace.core.job.delivery import LeasedDelivery
from headrace.middleware.nesting import receiving
from headrace.store.contract import Consumer, StoreConsumer
from headrace.worker.consume.controller import Controller
from headrace.worker.consume.offload_cleaner import cleaner_of
from headrace.worker.consume.places import Places
from headrace.worker.consume.reader import QueueReader, Ready
from headrace.worker.consume.settler import Settler
from headrace.worker.logs.stop_log import report_cut
from headrace.worker.observer import narrowed
from headrace.worker.run.ack_policy import AckPolicy
from headrace.worker.run.admitter import Admitter
from headrace.worker.run.auditing import Auditing
from headrace.worker.run.executor import Executor
from headrace.worker.run.run import Run
from headrace.worker.run.slots import Slots
from headrace.worker.service import Service, ended
from headrace.worker.shared_services import SharedServices
from headrace.worker.worker_outcome import WorkerOutcome

if TYPE_CHECKING:
    from headrace.client.task import Task

log = logging.getLogger("headrace.worker")

_CANCEL_GRACE = 2.0
_FLUSH_GRACE = 5.0
_NEVER = float("inf")
_UNWRITTEN = "%d outcomes could not be written: those jobs will run again"


class ConsumerLoop:
    """Has slots, runs and leases of its own. Its `policy` says when deliveries are acknowledged,
    and what happens at the end to those that have not begun. `runner` is where all of its functions
    run, if that is the same for all of them. `scope`, if given, is the scope of all
    of its errors."""

    new_reader = QueueReader

    def __init__(
        self,
        name: str,
        shared: SharedServices,
        consumer: Consumer,
        upkeep: StoreConsumer | None,
        queues: Sequence[str],
        tasks: Mapping[str, Task[..., Any]],
        *,
        slots: Slots,
        policy: AckPolicy,
        auditing: Auditing | None = None,
        ready: Ready | None = None,
        runner: Runner | None = None,
        weights: Mapping[str, int] | None = None,
        scope: str = "",
    ) -> None:
        self.name = name
        self.consumer = consumer
        self.upkeep = upkeep
        self.queues = tuple(queues)
        self.slots = slots
        self._places = Places(slots, shared.runners, runner)
        self._policy = policy
        self._auditing, self._ready = auditing, ready
        self._weights = weights
        self._shared = shared
        self._observe = narrowed(shared.observe, scope)
        self._noticed = narrowed(shared.noticed, scope)
        self.held: set[LeasedDelivery] = shared.held.open()
        self._cleaner = cleaner_of(tasks, shared.then_listeners(policy.settled))
        self._settler: Settler = shared.make_settler(
            consumer,
            self.held,
            shared.before_settling,
            self._cleaner.settled,
            shared.counted,
            shared.clock.now_ms,
            shared.failures,
        )
        self._executor = self._make_executor(tasks)
        policy.attach(self._settler, self._executor.in_flight)
        self._reader = self._make_reader()
        self._controller = (
            Controller(shared.app.store, upkeep, queues, self._executor.apply_control)
            if upkeep
            else None
        )
        controlled = (self._controller,) if self._controller else ()
        self._services: tuple[Service, ...] = (self._settler, *controlled, self._reader)
        self._tasks: dict[Service, asyncio.Task[None]] = {}
        self._ends_at = _NEVER
        self._draining: asyncio.Task[None] | None = None
        self._timed_out = False
        self._errors = self._crashes = 0

    def _make_executor(self, tasks: Mapping[str, Task[..., Any]]) -> Executor:
        shared = self._shared
        return Executor(
            tasks,
            shared.runners,
            Admitter(self.consumer),
            self.slots,
            shared.settings,
            self._policy,
            auditing=self._auditing,
            observe=self._observe,
            ready_ms=self.consumer.ready_ms,
        )

    def _make_reader(self) -> QueueReader:
        shared = self._shared
        reclaimer = shared.reclaimer(self.upkeep, self.queues) if self.upkeep else None
        return self.new_reader(
            self.consumer,
            reclaimer,
            self._settler,
            self._places,
            self.held,
            self._executor.start,
            self._ready,
            receiving(shared.app.middlewares),
            lease=shared.app.lease,
            weights=self._weights,
        )

    # What others ask

    @property
    def in_flight(self) -> int:
        """Deliveries that have no written outcome yet."""
        return len(self.held)

    @property
    def failure(self) -> BaseException | None:
        """Why the loop is broken; None if it works."""
        for task in self._tasks.values():
            if task.done() and self._draining is None:
                return asyncio.CancelledError() if task.cancelled() else task.exception()
        return None

    @property
    def runs(self) -> list[Run]:
        """Its running jobs, also each one of a batch; from any thread."""
        # Copied in one go: the loop's thread changes the set meanwhile.
        return [member for run in tuple(self._executor.in_flight.running) for member in run.members]

    def look_now(self) -> None:
        """Look for abandoned jobs now: time has been moved."""
        self._reader.look_now()

    def lose(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """End the runs of deliveries that belong to this loop."""
        self._executor.stopper.lose(deliveries)

    @property
    def tally(self) -> WorkerOutcome:
        return WorkerOutcome(
            errors=self._errors,
            crashes=self._crashes + sum(service.crashes for service in self._services),
            timed_out=self._timed_out,
            lost_leases=self._settler.lost_leases,
            unhandled_events=self._policy.unhandled,
        )

    # Its life

    async def prepare(self) -> None:
        """Do what must be done before the start."""
        if self._ready is not None:
            await self._ready()
        if self._controller is not None:
            await self._controller.listen()
            # Before the first job is taken: its task may be paused.
            await self._controller.step()

    def start(self) -> None:
        if self._draining is not None:
            # The worker has stopped while this loop was prepared: nobody would end it.
            return
        for service in self._services:
            name = f"{service.name}-{self.name}"
            self._tasks[service] = service.begin(
                self._shared.outage, self._noticed, self._shared.patience, name
            )

    async def drain(self, ends_at: float, hurrying: asyncio.Event) -> None:
        """Take nothing new, let runs end, cut them short at `ends_at` or when `hurrying` is set,
        and have all outcomes written. May be called again with an earlier end, and after it was cut
        short itself."""
        self._ends_at = min(self._ends_at, ends_at)
        if self._draining is None or self._draining.cancelled():
            self._draining = asyncio.create_task(self._drain(hurrying))
        await asyncio.shield(self._draining)

    async def close(self) -> None:
        """End, after `drain`."""
        try:
            # The settler last: what runs until then may still end jobs.
            for service in (self._controller, self._settler):
                if service is not None and service in self._tasks:
                    await ended(service, self._tasks[service], _FLUSH_GRACE)
            await self._cleaner.close()
        finally:
            self._places.close()
            self._shared.held.close(self.held)
            self._policy.close()

    async def leave(self) -> None:
        """Leave no trace in the store."""
        listening = [self._controller.close()] if self._controller else []
        await asyncio.gather(*listening, self.consumer.close())

    async def _drain(self, hurrying: asyncio.Event) -> None:
        try:
            await self._end_well(hurrying)
        except Exception:
            self._crashes += 1
            log.exception(
                "the consumer of %s did not end well", self.name, extra={"consumer": self.name}
            )

    async def _end_well(self, hurrying: asyncio.Event) -> None:
        if self._reader in self._tasks:
            within = max(self._ends_at - time.monotonic(), 1.0)
            await self._reader.interrupt(self._tasks[self._reader], within)
        if self._policy.hands_back:
            self._executor.stopper.hand_back(only_waiting=True)
        else:
            self._executor.in_flight.flush()
        if not await self._runs_end(hurrying):
            self._timed_out = True
            report_cut(self.runs)
            await self._cut_short()
        await self._flush()

    async def _runs_end(self, hurrying: asyncio.Event) -> bool:
        while (futures := self._executor.in_flight.busy) or self._policy.waiting:
            if hurrying.is_set() or time.monotonic() >= self._ends_at:
                return False
            if futures:
                await asyncio.wait(futures, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0.01)
        return True

    async def _cut_short(self) -> None:
        if self._auditing is not None:
            self._auditing.hurry()
        self._executor.stopper.hand_back(only_waiting=False)
        self._ends_at = time.monotonic() + _CANCEL_GRACE
        await self._runs_end(asyncio.Event())
        self._executor.stopper.abandon_all()
        if self._auditing is not None:
            # What was just given up is recorded too.
            self._ends_at = time.monotonic() + _CANCEL_GRACE
            await self._runs_end(asyncio.Event())

    async def _flush(self) -> None:
        """Wait until all outcomes are written, and count those that could not be."""
        ends_at = time.monotonic() + _FLUSH_GRACE
        while self._settler.backlog and time.monotonic() < ends_at:
            self._settler.wake()
            await asyncio.sleep(0.01)
        self._errors = self._settler.backlog
        if self._errors:
            log.error(_UNWRITTEN, self._errors, extra={"consumer": self.name})
