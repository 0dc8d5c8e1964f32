"""A worker that is run by hand: the parts of a worker, whose steps a test asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from headrace.core.job.outcome import Outcome
from headrace.core.queue_names import group_source, is_log
from headrace.errors import StoreError
from headrace.testing.drain.calling_thread import calling_thread
from headrace.testing.drain.hand_loop import HandLoop, HandLoops, Wanted
from headrace.worker.app import WorkerApp
from headrace.worker.consume.consumer_loops import wait_briefly
from headrace.worker.consume.tail import Tail
from headrace.worker.run.run import Run
from headrace.worker.run.runners import CountStart, Runners
from headrace.worker.runtime import all_of
from headrace.worker.settings import WorkerSettings, worker_settings
from headrace.worker.shared_services import SharedServices
from headrace.worker.threads.thread_pool import ThreadPool
from headrace.worker.upkeep.dead_handlers import DeadHandlerCaller
from headrace.worker.upkeep.dead_jobs import reporters_of
from headrace.worker.upkeep.dead_walker import DeadWalker
from headrace.worker.upkeep.promoter import Promoter
from headrace.worker.upkeep.scheduler import Scheduler, SchedulerTicket

T = TypeVar("T")
Failed = Callable[[Run, BaseException, Outcome], None]

_SLOTS = 100
_TRIES = 3


class HereRunners(Runners):
    """Runs all functions in this process: also those that would have one of their own, which would
    see nothing that a test has replaced."""

    def __init__(self, app: WorkerApp) -> None:
        super().__init__(threads=_SLOTS, processes=1, middleware=app.middlewares)
        self.threads = ThreadPool(_SLOTS, calling_thread.get(), linger=0.0)
        # As if there were middleware: arguments are decoded here for all.
        self.wrapped = True
        self._app = app
        self._process: ExitStack | None = None
        self._state: Any = None

    async def _in_process(self, run: Run, count_start: CountStart) -> Any:
        if self._process is None:
            self._process = ExitStack()
            if (lifespan := self._app.process_lifespan_declared) is not None:
                around = lifespan.around(self._app)
                self._state = await asyncio.to_thread(self._process.enter_context, around)
        # The state of a task process, not that of its worker.
        run.settings = msgspec.structs.replace(run.settings, state=self._state)
        return await self._in_thread(run, count_start)

    async def close(self) -> None:
        if self._process is not None:
            await asyncio.to_thread(self._process.close)
        await super().close()


class _NoTicket(SchedulerTicket):
    """Nobody else fires schedules."""

    async def allows(self, due: Sequence[str]) -> bool:
        return True


class HandWorker:
    """`failed` is called with each error of a run, `noticed` with those of `on_dead` functions.
    `cursors` say where broadcasts go on."""

    def __init__(
        self,
        app: WorkerApp,
        settings: WorkerSettings,
        state: Any,
        *,
        failed: Failed,
        noticed: Callable[[BaseException], None],
        began_ms: int,
        cursors: dict[str, dict[str, str]],
        broadcasts: bool,
    ) -> None:
        self._app = app
        self._cursors = cursors
        self._broadcasts = broadcasts
        self._shared = shared = SharedServices(app, settings, state, None)
        shared.runners = HereRunners(app)
        # There is no other worker to whom a job could go back.
        shared.settings = msgspec.structs.replace(
            shared.settings, failed=failed, late_after=float("inf"), others=None
        )
        self.all_loops = HandLoops(
            settings, shared, lambda _, queue: None, asyncio.Event(), lambda _: None
        )
        logs = [name for topic in app.topics.values() for name in topic.logs]
        self._queues = [*settings.queues, *settings.group_queues, *logs]
        self._promoter = Promoter(self.all_loops.upkeep, self._queues)
        self._scheduler = Scheduler(app.store, app.schedules, settings.name, watched_ms=began_ms)
        self._scheduler.ticket = _NoTicket(app.store, settings.name, lambda: 0.0)
        self._walkers = self._make_walkers(settings, noticed)

    def _make_walkers(
        self, settings: WorkerSettings, noticed: Callable[[BaseException], None]
    ) -> list[tuple[DeadWalker, list[str]]]:
        """What is to be done about the dead, and in which queues."""
        app, walkers = self._app, list[tuple[DeadWalker, list[str]]]()
        for reporter in reporters_of(app, settings, self._shared.clock.now_ms):
            walkers.append((reporter, settings.queues))
        for one in settings.subscriptions:
            if one.dead_handler is not None:
                caller = DeadHandlerCaller(
                    app.store, one, one.dead_handler, settings.name, app.lease
                )
                walkers.append((caller, list(one.queues)))
        for walker, _ in walkers:
            walker.observe = lambda scope, error, details: noticed(error)
        return walkers

    @property
    def loops(self) -> list[HandLoop]:
        return [loop for loop in self.all_loops if isinstance(loop, HandLoop)]

    async def prepare(self) -> None:
        await _patiently(self._prepare)

    async def _prepare(self) -> None:
        await self._shared.clock.compare()
        for loop in self.loops:
            if isinstance(loop.consumer, Tail):
                await loop.consumer.go_on_from(self._cursors.setdefault(loop.name, {}))
            await loop.prepare()

    async def tend(self) -> None:
        """Do what is due besides jobs: move on jobs whose time has come, fire schedules, see to
        the dead."""
        await _patiently(self._tend)

    async def _tend(self) -> None:
        for queue in self._queues:
            while await self._promoter.poll(queue) <= 0.0:
                pass
        if self._app.schedules.declared or await self._app.store.kv_all("schedules"):
            await self._scheduler.step()
        for walker, queues in self._walkers:
            for queue in queues:
                await walker.poll(queue)

    async def run_next(self, wanted: Wanted, waits: Callable[[], bool]) -> int:
        """Run the next job, or batch, to its end, and write its outcome; how many jobs that was.
        Returns before the end if something `waits` for another job."""
        for loop in self.loops:
            if isinstance(loop.consumer, Tail) and not self._broadcasts:
                continue
            if taken := await _patiently(partial(loop.take, wanted)):
                await self.finish(waits)
                return taken
        await self.finish(waits)
        return 0

    async def finish(self, waits: Callable[[], bool]) -> None:
        """Wait for what runs, and write its outcomes, unless it `waits` for other jobs."""
        while busy := [loop for loop in self.loops if loop.is_busy]:
            for loop in busy:
                await _patiently(loop.settle)
            if waits():
                return
            for loop in busy:
                await loop.go_on()

    @property
    def is_busy(self) -> bool:
        return any(loop.is_busy for loop in self.loops)

    async def close(self) -> None:
        """Hand back what it still has, and leave no trace."""
        await all_of(loop.close() for loop in self.loops)
        await self._shared.runners.close()
        await wait_briefly(self._shared.progress_writer.flush())
        await wait_briefly(*(loop.leave() for loop in self.loops))
        await wait_briefly(self.all_loops.upkeep.close())
        await self._scheduler.close()
        for trail in self._shared.trails:
            trail.close()
        self._shared.failures.close()
        if self._shared.listeners is not None:
            await self._shared.listeners.close()
        await self._shared.observer.close()


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Do it again if the store fails, as a worker does, but not for ever."""
    for _ in range(_TRIES - 1):
        with suppress(StoreError):
            return await work()
    return await work()


async def hand_settings(app: WorkerApp) -> WorkerSettings | None:
    """The settings of a worker of all queues that there are; None if the app has nothing to
    run."""
    if not app.tasks and not any(
        topic.subscriptions or topic.broadcasts for topic in app.topics.values()
    ):
        return None
    settings = worker_settings(
        app,
        queues=None,
        strict=False,
        concurrency=_SLOTS,
        threads=_SLOTS,
        processes=1,
        max_jobs_per_process=None,
        drain=0.0,
        wait_for_store=None,
        name="test",
        schedules=True,
        upkeep=True,
    )
    there = [name for name in await app.store.queues() if not (group_source(name) or is_log(name))]
    weights = {**settings.weights, **dict.fromkeys(there, 1)} if app.tasks else settings.weights
    return msgspec.structs.replace(settings, weights=weights)
