"""A worker: wires its parts together, and stops them in the right order."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.core import ids, limits
from headrace.core.delivery import Delivery
from headrace.errors import ConfigError
from headrace.store.contract import Consumer
from headrace.worker.ending import WorkerOutcome
from headrace.worker.executor import Executor
from headrace.worker.heartbeat import Heartbeat
from headrace.worker.promoter import Promoter
from headrace.worker.reader import Reader
from headrace.worker.reclaimer import Reclaimer
from headrace.worker.runners import Runners
from headrace.worker.settler import Settler
from headrace.worker.slots import Slots
from headrace.worker.store_clock import StoreClock

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")

_CANCEL_GRACE = 2.0
_FLUSH_GRACE = 5.0
_LEAVE_GRACE = 2.0


class Worker:
    """Runs the jobs of some queues. `await worker.run()` works until `stop()`; `async with worker:`
    runs one beside other code."""

    def __init__(
        self,
        app: Headrace,
        *,
        queues: Sequence[str] | None,
        concurrency: int,
        threads: int | None,
        processes: int | None,
        drain: float,
    ) -> None:
        cpus = os.cpu_count() or 1
        self.app = app
        self.name = f"{socket.gethostname()}-{os.getpid()}-{ids.new_key()[-4:].hex()}"
        self.queues = _checked_queues(app, queues)
        _check_process_tasks(app)
        self.concurrency = limits.check_count("concurrency", concurrency)
        self.threads = limits.check_count("threads", cpus * 4 if threads is None else threads)
        self.processes = limits.check_count("processes", cpus if processes is None else processes)
        self.drain = limits.check_seconds("drain", drain)
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._running: asyncio.Task[WorkerOutcome] | None = None
        self._ready = asyncio.Event()

    def stop(self) -> None:
        """Take no more jobs and let the running ones end; the second call cancels those."""
        if self._stopping.is_set():
            self._hurrying.set()
        self._stopping.set()

    async def run(self) -> WorkerOutcome:
        """Work until stopped. A worker works once."""
        if self._ready.is_set():
            raise ConfigError("this worker has run already: make another with app.worker()")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.app)
            session = await self.app.session()
            state = await stack.enter_async_context(self._lifespan())
            consumer = session.store.consumer(self.name, self.queues, self.app.lease)
            parts = _Parts(self, consumer, state)
            await parts.start()
            log.info("worker %s runs %s", self.name, ", ".join(self.queues))
            self._ready.set()
            try:
                await self._stopping.wait()
            finally:
                outcome = await parts.stop(self.drain, self._hurrying)
            log.info("worker %s ended: %s", self.name, outcome)
            return outcome

    async def __aenter__(self) -> Worker:
        self._running = asyncio.create_task(self.run(), name="headrace-worker")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._running.done():
            self._running.result()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if self._running is not None:
            await self._running

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[Any]:
        function = self.app.lifespan_function
        if function is None:
            yield None
            return
        takes_app = bool(inspect.signature(function).parameters)
        async with asynccontextmanager(function)(*([self.app] if takes_app else [])) as state:
            yield state


class _Parts:
    """The parts of a running worker."""

    def __init__(self, worker: Worker, consumer: Consumer, state: Any) -> None:
        app = worker.app
        held: set[Delivery] = set()
        self._consumer = consumer
        self._clock = StoreClock(app.store, app.clock)
        self._slots = Slots(worker.concurrency)
        self._settler = Settler(consumer, held)
        self._runners = Runners(threads=worker.threads, processes=worker.processes)
        self._executor = Executor(
            app.tasks,
            self._runners,
            self._settler.put,
            self._slots.give,
            worker=worker.name,
            state=state,
            crash_limit=app.crash_limit,
            max_payload=app.max_payload,
            now_ms=self._clock.now_ms,
        )
        reclaimer = Reclaimer(consumer, worker.queues, held, app.lease, app.crash_limit)
        self._reader = Reader(
            consumer, reclaimer, self._settler, self._slots, held, self._executor.start
        )
        self._promoter = Promoter(consumer, worker.queues)
        self._heartbeat = Heartbeat(
            app.store, self._clock, consumer, held, app.lease, self._executor.lose
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        await self._clock.compare()
        await self._promoter.listen()
        self._heartbeat.start()
        for service in (self._settler, self._reader, self._promoter):
            task = asyncio.create_task(service.run(), name=f"headrace-{service.name}")
            self._tasks[service.name] = task

    async def stop(self, drain: float, hurrying: asyncio.Event) -> WorkerOutcome:
        """Take nothing new, let run what runs, hand back the rest, write all outcomes, leave."""
        began = time.monotonic()
        await self._reader.interrupt(self._tasks["reader"], within=max(drain, 1.0))
        drain -= time.monotonic() - began
        self._executor.send_away(only_waiting=True)
        in_time = await self._runs_end(drain, hurrying)
        if not in_time:
            await self._cut_short()
        errors = await self._flush()
        await self._end("promoter", self._promoter.stop)
        await self._end("settler", self._settler.stop)
        await self._leave()
        services = (self._reader, self._promoter, self._settler)
        return WorkerOutcome(
            errors=errors,
            crashes=sum(service.crashes for service in services),
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
        self._executor.send_away(only_waiting=False)
        await self._runs_end(_CANCEL_GRACE, asyncio.Event())
        self._executor.abandon_all()

    async def _flush(self) -> int:
        """Wait until all outcomes are written; the number of those that could not be."""
        ends_at = time.monotonic() + _FLUSH_GRACE
        while self._settler.backlog and time.monotonic() < ends_at:
            self._settler.wake()
            await asyncio.sleep(0.01)
        if self._settler.backlog:
            log.error("%d outcomes could not be written", self._settler.backlog)
        return self._settler.backlog

    async def _end(self, name: str, stop: Any) -> None:
        stop()
        task = self._tasks[name]
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
        # A store that is away cannot be told; the lease will tell the others.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LEAVE_GRACE):
                await self._promoter.close()
                await self._consumer.close()


def _checked_queues(app: Headrace, queues: Sequence[str] | None) -> list[str]:
    if isinstance(queues, str):
        raise ConfigError(f"queues must be a list of names, not the text {queues!r}")
    names = list(dict.fromkeys(app.queues if queues is None else queues))
    if not names:
        raise ConfigError("the app has no tasks, so a worker would have no queue: declare some")
    return [limits.check_name("queue", name) for name in names]


def _check_process_tasks(app: Headrace) -> None:
    """Another process finds a task by the name of its function: see that it would."""
    for task in app.tasks.values():
        if task.declared.run_in != "process":
            continue
        found: Any = sys.modules.get(task.function.__module__)
        for name in task.function.__qualname__.split("."):
            found = getattr(found, name, None)
        if getattr(found, "function", None) is not task.function:
            raise ConfigError(
                f"task {task.name!r}: run_in='process' needs the task to be "
                f"{task.__module__}.{task.__qualname__}, so that another process finds it there"
            )
