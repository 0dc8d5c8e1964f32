"""A worker: what it is told to do, and its life from start to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.core import bounds
from headrace.core.job import ids
from headrace.errors import ConfigError
from headrace.metrics.totals import Phase, Totals
from headrace.worker.runtime import WorkerRuntime
from headrace.worker.selection import choose
from headrace.worker.store_wait import StoppedWaiting, StoreWait
from headrace.worker.worker_outcome import WorkerOutcome

if TYPE_CHECKING:
    from headrace.worker.app import WorkerApp

log = logging.getLogger("headrace.worker")


class Worker:
    """Runs the jobs of some queues. `await worker.run()` works until `stop()`; `async with worker:`
    runs one beside other code."""

    def __init__(
        self,
        app: WorkerApp,
        *,
        queues: Sequence[str] | Mapping[str, int] | None,
        strict: bool = False,
        concurrency: int,
        threads: int | None,
        processes: int | None,
        drain: float,
        wait_for_store: float | None = None,
    ) -> None:
        cpus = os.cpu_count() or 1
        self.app = app
        self.name = f"{socket.gethostname()}-{os.getpid()}-{ids.new_id()[-4:].hex()}"
        chosen = choose(app, queues, strict)
        self.weights = chosen.weights
        self.queues = list(self.weights)
        """Ordinary ones; groups of topics are read by `subscriptions`."""
        self.subscriptions = chosen.subscriptions
        self.broadcasts = [
            one for topic in app.topics.values() for one in topic.broadcasts.values()
        ]
        self.strict = strict
        _check_process_tasks(app)
        self.concurrency = bounds.check_count("concurrency", concurrency)
        self.threads = bounds.check_count("threads", cpus * 4 if threads is None else threads)
        self.processes = bounds.check_count("processes", cpus if processes is None else processes)
        self.drain = bounds.check_seconds("drain", drain)
        self.wait_for_store = (
            None
            if wait_for_store is None
            else bounds.check_seconds("wait_for_store", wait_for_store)
        )
        self.totals: Totals | None = None
        """Where it counts what it does, for metrics; to be set before it runs."""
        self.runtime: WorkerRuntime | None = None
        """What it consists of, once it runs."""
        self.outcome: WorkerOutcome | None = None
        """How it ended, once it has; also if `run` was cancelled."""
        self._stopping = asyncio.Event()
        self.hurrying = asyncio.Event()
        """Set when running jobs are not to be waited for any more."""
        self._running: asyncio.Task[WorkerOutcome] | None = None
        self._ready = asyncio.Event()

    def stop(self) -> None:
        """Take no more jobs and let the running ones end; the second call cancels those."""
        if self._stopping.is_set():
            self.hurrying.set()
        self._stopping.set()

    async def run(self) -> WorkerOutcome:
        """Work until stopped. A worker works once. It waits for a store that is away when it
        starts, for `wait_for_store` seconds."""
        if self._ready.is_set():
            raise ConfigError("this worker has run already: make another with app.worker()")
        async with AsyncExitStack() as stack:
            wait = StoreWait(self.wait_for_store, self._stopping)
            try:
                await wait.through(partial(stack.enter_async_context, self.app))
                state = await stack.enter_async_context(self._lifespan())
                runtime = self.runtime = await wait.through(partial(self._started, state))
            except StoppedWaiting:
                self.outcome = WorkerOutcome()
                return self.outcome
            log.info("worker %s runs %s", self.name, self._shown_queues())
            self._ready.set()
            try:
                await self._stopping.wait()
            finally:
                outcome = await self._ended(runtime)
            return outcome

    async def _started(self, state: Any) -> WorkerRuntime:
        runtime = WorkerRuntime(self, state)
        await runtime.start()
        return runtime

    async def _ended(self, runtime: WorkerRuntime) -> WorkerOutcome:
        """Stop to the end, whoever cancels this: what was taken is settled or handed back, and the
        tally is kept. Each cancellation hurries; the last is passed on."""
        stopping = asyncio.create_task(runtime.stop(self.drain, self.hurrying))
        cancelled: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as error:
                cancelled = error
                self.hurrying.set()
        self.outcome = stopping.result()
        log.info("worker %s ended: %s", self.name, self.outcome)
        if cancelled is not None:
            raise cancelled
        return self.outcome

    @property
    def phase(self) -> Phase:
        """Whether it takes jobs; from any thread."""
        if self._stopping.is_set():
            return "stopping"
        return "working" if self._ready.is_set() else "starting"

    @property
    def group_queues(self) -> list[str]:
        """The queues of all groups that it serves, shard by shard."""
        return [queue for one in self.subscriptions for queue in one.queues]

    @property
    def logs(self) -> list[str]:
        """The logs of all topics of its app, which it looks after whoever reads them."""
        return [log for topic in self.app.topics.values() for log in topic.logs]

    def _shown_queues(self) -> str:
        names = [*self.queues, *(one.declared.queue for one in self.subscriptions)]
        if set(self.weights.values()) <= {1}:
            return ", ".join(names) + (", in this order" if self.strict else "")
        return ", ".join(f"{name}={self.weights.get(name, 1)}" for name in names)

    async def __aenter__(self) -> Worker:
        self._running = asyncio.create_task(self.run(), name="headrace-worker")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({self._running, ready}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # Nobody would stop it: it may wait for its store for ever.
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            raise
        finally:
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


def _check_process_tasks(app: WorkerApp) -> None:
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
