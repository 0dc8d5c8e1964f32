"""`TestKit`: an app on a store of its own, for one test."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from headrace.admin.app import AdminApp
from headrace.client.portal import Portal
from headrace.core.clock import Clock, ManualClock, epoch_ms
from headrace.errors import ConfigError
from headrace.override import Override
from headrace.testing.drain.calling_thread import ServingPortal
from headrace.testing.drain.drain import Drain, Only, raise_all
from headrace.testing.drain.inline import Inline, replaced
from headrace.testing.drain.waiting import Asked, TestedSessions, must_be_awaited
from headrace.testing.faults.fault_maker import FaultMaker
from headrace.testing.faults.tested_store import TestedStore
from headrace.testing.sent.sent import SentLog
from headrace.testing.sent.sent_checks import SentChecks
from headrace.worker.app import WorkerApp


class KitApp(WorkerApp, AdminApp, Protocol):
    """What the kit needs of the app. `Headrace` is one."""

    portal: Portal

    @property
    def awaits_results(self) -> bool: ...

    def load(self) -> None: ...

    def override(self, url: str, *, clock: Clock) -> Override[Any]: ...


class TestKit(SentChecks, FaultMaker):
    """What `app.testing()` gives, and the fixture `headrace`: the app, on a store in memory that
    was empty at the beginning, and what a test asks and does about its jobs."""

    __test__ = False
    app: KitApp

    def __init__(
        self,
        app: KitApp,
        *,
        inline: bool = False,
        raise_errors: bool = True,
        now: datetime | None = None,
    ) -> None:
        began_ms = time.time_ns() // 1_000_000 if now is None else epoch_ms("now", now)
        self.app = app
        self.clock = ManualClock(began_ms)
        """The time of jobs, retries, schedules, expiries and leases: stands still until the test
        moves it."""
        self._sent_log = SentLog(app)
        self._asked = Asked()
        self._began_ms = began_ms
        self._inline = inline
        self._raise_errors = raise_errors
        self._override: Override[Any] | None = None
        self._inside = ExitStack()
        self._cursors: dict[str, dict[str, str]] = {}

    # Running what is due

    @must_be_awaited
    async def drain(
        self, only: Only = None, steps: int | None = None, raise_errors: bool | None = None
    ) -> int:
        """Run all that is due, here, one after the other, until nothing is; returns the number of
        jobs and events. Jobs that the jobs send are run too; what is due later is not, until the
        clock is moved.

        Args:
            only: A task, a subscription, a name, or a list of those: others wait.
            steps: After this many jobs, 10,000 by default, it fails: they may go on for ever.
            raise_errors: Whether the error of a job is raised, after all have run, also if it is
                retried later; those of several as an `ExceptionGroup`. A job that succeeds after
                all, `RetryLater` and `Defer` raise nothing. As `app.testing()` says unless given.
        """
        __tracebackhide__ = True
        return await self._drained(self._drain_of(only, steps), None, raise_errors)

    def drain_sync(
        self, only: Only = None, steps: int | None = None, raise_errors: bool | None = None
    ) -> int:
        """`drain` for a test without an event loop. Plain functions run in its own thread.

        Args:
            only: As for `drain`.
            steps: As for `drain`.
            raise_errors: As for `drain`.
        """
        __tracebackhide__ = True
        return self.app.portal.run(self.drain(only, steps, raise_errors))

    @must_be_awaited
    async def run_one(self, only: Only = None, raise_errors: bool | None = None) -> bool:
        """Run the next job that is due, or the next batch; False if there is none.

        Args:
            only: As for `drain`.
            raise_errors: As for `drain`.
        """
        return bool(await self._drained(self._drain_of(only, None), 1, raise_errors))

    def run_one_sync(self, only: Only = None, raise_errors: bool | None = None) -> bool:
        """`run_one` for a test without an event loop.

        Args:
            only: As for `drain`.
            raise_errors: As for `drain`.
        """
        return self.app.portal.run(self.run_one(only, raise_errors))

    def _drain_of(self, only: Only, steps: int | None) -> Drain:
        self._check_inside()
        return Drain(
            self.app,
            began_ms=self._began_ms,
            cursors=self._cursors,
            waits=lambda: self.app.awaits_results,
            only=only,
            steps=steps,
        )

    async def _drained(self, drain: Drain, most: int | None, raise_errors: bool | None) -> int:
        __tracebackhide__ = True
        ran = await drain.run(most)
        raises = self._raise_errors if raise_errors is None else raise_errors
        if raises and drain.is_outermost:
            raise_all(await drain.failures.left(self.app))
        return ran

    # Its life

    def __enter__(self) -> Self:
        if self._override is not None:
            raise ConfigError("this test kit is in use: make another with app.testing()")
        self.app.load()
        override: Override[Any] = self.app.override("memory://", clock=self.clock)
        override.__enter__()
        self._override = override
        workers = self.app.running_workers
        self._store = TestedStore(
            self.app.store, self.clock, self._sent_log, workers, self.app.crash_limit
        )
        vars(self.app)["_store"] = self._store
        vars(self.app)["_sessions"] = TestedSessions(workers)
        self._inside.enter_context(replaced(self.app, portal=ServingPortal(self.app.portal)))
        # What tests do is not counted with the real thing.
        self._inside.enter_context(replaced(self.app, metrics_pushers=[]))
        if self._inline:
            self._inside.enter_context(Inline(self.app.outgoing, self.drain))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        self._left().__exit__(kind, error, traceback)
        self._check_end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._left().__aexit__(kind, error, traceback)
        self._check_end(error)

    def _check_end(self, error: BaseException | None) -> None:
        """Fail if the test shows less than it says, unless it has failed already."""
        __tracebackhide__ = True
        left = self._asked.forget()
        if error is None and left:
            raise AssertionError(
                f"{left[0]}() was not awaited, and ran nothing: write await headrace.{left[0]}(), "
                f"or headrace.{left[0]}_sync() in a test that is a plain function"
            )
        if error is None:
            self._check_faults()

    def _forget(self) -> None:
        """Expect nothing any more of a test that has failed already."""
        self._asked.forget()
        self.store.run_faults.forget()
        self.store.faults.forget()

    def _left(self) -> Override[Any]:
        self._check_inside()
        override, self._override = self._override, None
        assert override is not None
        self._inside.close()
        return override

    def _check_inside(self) -> None:
        if self._override is None:
            raise ConfigError("the test kit is not in use: write `with app.testing() as headrace:`")
