"""What all consumer loops of a worker share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from headrace.audit.audit import Trail, is_trail
from headrace.client.topic.subscription import Subscription
from headrace.core.clock import to_ms
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.task.process_lifespan import START_TIMEOUT
from headrace.metrics.totals import Totals
from headrace.store.contract import Settlement, Upkeep
from headrace.worker.app import WorkerApp
from headrace.worker.consume.heartbeat import StoreClock
from headrace.worker.consume.reclaimer import LastChance, Reclaimer
from headrace.worker.consume.settler import Counted, Settled
from headrace.worker.consume.start_recorder import StartRecorder
from headrace.worker.consume.success_settler import settler_of
from headrace.worker.listeners import listeners_of
from headrace.worker.logs.done_count import DoneCount
from headrace.worker.logs.failure_log import FailureLog
from headrace.worker.logs.store_outage import StoreOutage
from headrace.worker.logs.unknown_log import UnknownLog
from headrace.worker.observer import Observer
from headrace.worker.run.auditing import Auditing
from headrace.worker.run.other_declarations import OtherDeclarations
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.run.runners import Runners
from headrace.worker.settings import WorkerSettings
from headrace.worker.upkeep.progress_writer import ProgressWriter
from headrace.worker.upkeep.store_reporter import StoreReporters

# What a worker needs beside the time that it gives its runs: to cut them short, to write what they
# have come to.
_STOP_GRACE = 60.0


class Holdings:
    """The deliveries that all loops of a worker hold, each in a set of its own."""

    def __init__(self) -> None:
        self._sets: tuple[set[LeasedDelivery], ...] = ()

    def open(self) -> set[LeasedDelivery]:
        """A set for one more loop."""
        held: set[LeasedDelivery] = set()
        self._sets = (*self._sets, held)
        return held

    def close(self, held: set[LeasedDelivery]) -> None:
        self._sets = tuple(one for one in self._sets if one is not held)

    def __iter__(self) -> Iterator[LeasedDelivery]:
        return chain.from_iterable(self._sets)

    def __len__(self) -> int:
        return sum(map(len, self._sets))

    def __contains__(self, delivery: object) -> bool:
        return any(delivery in held for held in self._sets)


class SharedServices:
    """Clock, runners, progress writer, observer: made once for a worker, shared by its loops."""

    def __init__(
        self,
        app: WorkerApp,
        settings: WorkerSettings,
        state: Any,
        totals: Totals | None,
        torn_down: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app = app
        self.patience = settings.drain + _STOP_GRACE
        """The seconds that services have to be stopped in, once the program is cancelled."""
        self.held = Holdings()
        self.last_chance = LastChance(self.held, app.crash_limit)
        self.clock = StoreClock(app.store, app.clock)
        self.observer = Observer(app.error_hooks)
        self.observe = self.observer.observe if app.error_hooks else None
        self.listeners = listeners_of(app, settings.name)
        self.done = DoneCount() if settings.burst else None
        self.noticed = self.observe if totals is None else totals.counting_errors(self.observe)
        """Called with errors of services; `observe` also with those of handlers."""
        self.counted: Counted | None = None if totals is None else totals.count
        self.redelivered = None if totals is None else totals.count_redeliveries
        self.trails = [Trail(audit) for audit in app.audits]
        self.progress_writer = ProgressWriter(app.store, self.clock.now_ms)
        self.start_recorder = StartRecorder(self.clock.now_ms) if app.events else None
        self.failures = FailureLog(None if totals is None else totals.count_failure)
        self.outage = StoreOutage()
        lifespan = app.process_lifespan_declared
        self.settings = RunSettings(
            settings.name,
            state,
            app.crash_limit,
            app.max_payload,
            self.clock.now_ms,
            app.events
            or totals is not None
            or self.listeners is not None
            or app.history_rules.keeps_any,
            StoreReporters(app.store, self.progress_writer, patience=app.lease).of,
            self.failures,
            to_ms("unknown_task_after", app.unknown_task_after),
            UnknownLog(app.tasks, app.topics, app.last_resort),
            app.last_resort,
            START_TIMEOUT if lifespan is None else max(START_TIMEOUT, lifespan.timeout),
            None if totals is None else totals.count_batch,
            others=OtherDeclarations(app.store, self.clock.now_ms),
            torn_down=torn_down,
        )
        self.make_settler = settler_of(app)
        self.runners = Runners(
            threads=settings.threads,
            processes=settings.processes,
            max_jobs_per_process=settings.max_jobs_per_process,
            lets_processes_leave=lifespan is not None,
            middleware=app.middlewares,
        )

    def then_listeners(self, settled: Settled) -> Settled:
        """`settled`, and then the count of a burst, and the app's listeners, if there are any."""
        if self.done is not None:
            settled = self.done.after(settled)
        return settled if self.listeners is None else self.listeners.after(settled)

    def reclaimer(self, upkeep: Upkeep, queues: Sequence[str]) -> Reclaimer:
        taken_over = None if self.listeners is None else self.listeners.taken_over
        return Reclaimer(
            upkeep, queues, self.app.lease, self.last_chance, self.redelivered, taken_over
        )

    async def before_settling(self, queue: str, settlements: Sequence[Settlement]) -> None:
        """What has to be written before these outcomes is written."""
        await self.progress_writer.before_settling(queue, settlements)
        if self.start_recorder is not None:
            await self.start_recorder.before_settling(settlements)

    def auditing(self, subscription: Subscription[..., Any] | None = None) -> Auditing | None:
        """Records the deliveries of a loop; None if there is no audit, or they are records
        themselves."""
        if not self.trails or (subscription is not None and is_trail(subscription.topic)):
            return None
        return Auditing(self.trails, subscription, self.clock.now_ms, self.observe)
