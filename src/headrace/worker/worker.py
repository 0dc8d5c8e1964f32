"""A worker, from start to stop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any

from headrace.core.wrong_use import needs_async_with, not_awaitable
from headrace.errors import ConfigError, StoreUnavailable
from headrace.metrics.totals import Phase, Totals
from headrace.worker.app import WorkerApp
from headrace.worker.logs.banner import Banner
from headrace.worker.logs.worker_field import named_in_log
from headrace.worker.runtime import WorkerRuntime
from headrace.worker.settings import WorkerSettings
from headrace.worker.store_wait import StoppedWaiting, StoreWait
from headrace.worker.worker_outcome import WorkerOutcome


@needs_async_with("app.worker()", "in code without an event loop run `headrace worker module:app`")
@not_awaitable("a worker cannot be awaited: write `await app.worker().run()`")
class Worker:
    """Runs the jobs of some queues. `await worker.run()` works until `stop()`; `async with worker:`
    runs one beside other code."""

    def __init__(self, app: WorkerApp, settings: WorkerSettings) -> None:
        self.app = app
        self.settings = settings
        self.name = settings.name
        self.is_supervised = False
        """Whether a supervisor has said already what it works on; to be set before it runs."""
        self.totals: Totals | None = None
        """The counters for metrics; to be set before it runs."""
        self.runtime: WorkerRuntime | None = None
        """Its parts, once it runs."""
        self.outcome: WorkerOutcome | None = None
        """How it ended, once it has; also if `run` was cancelled."""
        self._drain = settings.drain
        self._lost = ""
        """Why it gave its store up, if it did."""
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._running: asyncio.Task[WorkerOutcome] | None = None
        self._runs_in: asyncio.Task[Any] | None = None
        """The task that `run` is part of, once it runs."""
        self._ready = asyncio.Event()
        self._banner = Banner(app, settings)

    def stop(self, drain: float | None = None) -> None:
        """Take no more jobs and let the running ones end, within `drain` seconds, or those that the
        worker was made with; the second call cancels those.

        Args:
            drain: Seconds that running jobs have to end; those that the worker was made with unless
                said.
        """
        if self._stopping.is_set():
            self._hurrying.set()
        elif drain is not None:
            self._drain = drain
        self._stopping.set()

    async def run(self) -> WorkerOutcome:
        """Work until stopped. A worker works once. It waits for a store that is away when it
        starts, for `wait_for_store` seconds."""
        if self._ready.is_set():
            raise ConfigError("this worker has run already: make another with app.worker()")
        async with AsyncExitStack() as stack:
            self.app.running_workers.add(self)
            stack.callback(self.app.running_workers.discard, self)
            stack.enter_context(named_in_log(self.name))
            limit = self.settings.wait_for_store
            limit = self.app.max_reconnect if limit is None else limit
            wait = StoreWait(limit, self._stopping)
            try:
                await wait.through(partial(stack.enter_async_context, self.app))
                self._runs_in = asyncio.current_task()
                if not self.is_supervised:
                    self._banner.starts()
                    await wait.through(self._banner.warn_of_undeclared_queues)
                    await wait.through(self._banner.warn_of_strangers)
                state = await stack.enter_async_context(lifespan_of(self.app))
                runtime = self.runtime = await wait.through(partial(self._started, state))
            except StoppedWaiting:
                self.outcome = WorkerOutcome()
                return self.outcome
            self._banner.runs(brief=self.is_supervised)
            self._ready.set()
            call_soon = asyncio.get_running_loop().call_soon_threadsafe
            runtime.outage.limit = self.app.max_reconnect
            runtime.outage.on_limit = lambda trouble: call_soon(self._give_up, trouble)
            try:
                await self._stopping.wait()
            finally:
                outcome = await self._ended(runtime)
            if self._lost:
                limit = self.app.max_reconnect
                raise StoreUnavailable(
                    f"the worker ends, as its store has been away for longer than "
                    f"max_reconnect={limit:g} s: {self._lost}"
                )
            return outcome

    @property
    def lost_store(self) -> bool:
        """Whether it ended because its store was away for longer than `max_reconnect`."""
        return bool(self._lost)

    def _give_up(self, trouble: str) -> None:
        if not self._stopping.is_set():
            self._lost = trouble
            self.stop(0.0)

    async def _started(self, state: Any) -> WorkerRuntime:
        self._count_for_sinks()
        runtime = WorkerRuntime(
            self.app,
            self.settings,
            state,
            totals=self.totals,
            phase=lambda: self.phase,
            hurrying=self._hurrying,
            stop=self.stop,
            torn_down=self._is_torn_down,
        )
        await runtime.start()
        return runtime

    def _is_torn_down(self) -> bool:
        """Whether `run` was cancelled, also before it has noticed."""
        return self._runs_in is not None and self._runs_in.cancelling() > 0

    def _count_for_sinks(self) -> None:
        pushers = self.app.metrics_pushers
        if pushers and self.totals is None:
            self.totals = Totals(self.app.sends)
        for pusher in pushers:
            if self.totals is not None:
                pusher.include(self.totals)

    async def _ended(self, runtime: WorkerRuntime) -> WorkerOutcome:
        """Stop to the end, also if this is cancelled: what was taken is settled or handed back, and
        the outcome is kept. Each cancellation hurries; the last is raised. `asyncio.run` cancels
        all tasks, that of the stop among them, which then begins again: the services run on until
        they are stopped."""
        stopping = asyncio.create_task(runtime.stop(self._drain))
        cancelled: asyncio.CancelledError | None = None
        while not stopping.done():
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError as error:
                cancelled = error
                self._hurrying.set()
                if stopping.cancelled():
                    stopping = asyncio.create_task(runtime.stop(0.0))
        self.outcome = stopping.result()
        self._banner.ended(self.outcome, runtime.failures, runtime.done)
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
    def queues(self) -> list[str]:
        """The ordinary queues that it reads, without those of groups."""
        return self.settings.queues

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
async def lifespan_of(app: WorkerApp) -> AsyncIterator[Any]:
    """Within it, the app's lifespan has begun; gives what that yielded."""
    function = app.lifespan_function
    if function is None:
        yield None
        return
    takes_app = bool(inspect.signature(function).parameters)
    async with asynccontextmanager(function)(*([app] if takes_app else [])) as state:
        yield state
