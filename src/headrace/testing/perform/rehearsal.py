"""Runs jobs and events as a worker does, without a store: the worker's own executor, whose outcomes
are kept instead of written."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from headrace.client.task import Task
from headrace.client.topic.subscription import Subscription
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.failure import FailedRun
from headrace.core.job.outcome import Outcome
from headrace.core.job.retry import OnTimeout, RemoteError
from headrace.core.queue_names import log_name
from headrace.middleware.nesting import receiving
from headrace.testing.perform.recorded_context import RecordedContext, RecordingReporter
from headrace.worker.app import WorkerApp
from headrace.worker.run.ack_policy import AckPolicy
from headrace.worker.run.admitter import Admitter
from headrace.worker.run.executor import Executor
from headrace.worker.run.outcomes import Outcomes
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.run.runners import Runners
from headrace.worker.run.slots import Slots

# A run without limits asks no store, and the policy below writes nothing.
_NO_STORE: Any = None


class Rehearsed(NamedTuple):
    """How one run ended."""

    outcome: Outcome
    value: Any
    """What the function returned."""
    error: BaseException | None
    """What it raised, or why it was not run."""
    context: RecordedContext


class _Run(Run):
    def _make_context(self) -> RecordedContext:
        made = super()._make_context()
        return RecordedContext(
            made.job,
            made.attempt,
            made.worker,
            made.fence,
            made.state,
            made._ends_at,
            made.headers,
            made._reporter,
            made.delivery,
        )


class _Outcomes(Outcomes):
    """Keeps what was returned and raised, which outcomes have only as bytes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.values: dict[LeasedDelivery, Any] = {}
        self.errors: dict[LeasedDelivery, BaseException] = {}

    def of_value(self, run: Run, value: Any) -> Outcome:
        self.values[run.delivery] = value
        return super().of_value(run, value)

    def _failed(self, run: Run, error: BaseException, on_timeout: OnTimeout | None) -> FailedRun:
        # A batch has the text of its error alone for each of its jobs.
        cause = error.__cause__ if isinstance(error, RemoteError) else None
        self.errors[run.delivery] = cause or error
        return super()._failed(run, error, on_timeout)


class _Executor(Executor):
    new_run = _Run
    new_outcomes = _Outcomes
    _outcomes: _Outcomes

    def rehearsed(self, run: Run) -> Rehearsed:
        context = run.context()
        assert isinstance(context, RecordedContext)
        kept, delivery = self._outcomes, run.delivery
        value, error = kept.values.get(delivery), kept.errors.get(delivery)
        return Rehearsed(run.outcome, value, error, context)


class _Policy(AckPolicy):
    """Keeps the runs that have ended."""

    returns = hands_back = False

    def __init__(self, expected: int, *, manual: bool, kept: bool) -> None:
        self.manual, self.kept = manual, kept
        self.ended: dict[LeasedDelivery, Run] = {}
        self.complete = asyncio.Event()
        self._expected = expected

    def decided(self, run: Run) -> None:
        self.ended[run.delivery] = run
        if run.manual is not None:
            run.manual.written()
        if len(self.ended) == self._expected:
            self.complete.set()


class Rehearsal:
    """Runs jobs of one task, or events of one group. In a process of its own, a function would see
    nothing that a test has replaced: such functions run in a thread here."""

    def __init__(self, task: Task[..., Any], state: Any) -> None:
        self._task = _in_thread(task) if task.declared.run_in == "process" else task
        self._app = app = cast(WorkerApp, task.app)
        self._records: dict[bytes, RecordingReporter] = {}
        self._settings = RunSettings(
            "test",
            state,
            app.crash_limit,
            app.max_payload,
            app.clock.now_ms,
            events=False,
            reporter_of=lambda _, job_id: self._records.setdefault(job_id, RecordingReporter()),
        )

    async def run(self, deliveries: Sequence[LeasedDelivery]) -> list[Rehearsed]:
        """Run these, as one batch if the task takes batches; in their order."""
        middleware = self._app.middlewares
        runners = Runners(threads=len(deliveries), processes=1, middleware=middleware)
        policy = self._policy(len(deliveries))
        executor = self._executor(runners, policy, len(deliveries))
        received = receiving(middleware)
        if received is not None:
            received(deliveries, time.time_ns())
        try:
            for delivery in deliveries:
                executor.start(delivery)
            executor.in_flight.flush()
            await policy.complete.wait()
        except asyncio.CancelledError:
            executor.stopper.hand_back(only_waiting=False)
            raise
        finally:
            await runners.close()
        return [executor.rehearsed(policy.ended[each]) for each in deliveries]

    def _policy(self, expected: int) -> _Policy:
        task = self._task
        wants = task.wants if isinstance(task, Subscription) else None
        return _Policy(
            expected,
            manual=wants is not None and wants.ack == "manual",
            kept=wants is None or not wants.broadcast,
        )

    def _executor(self, runners: Runners, policy: _Policy, count: int) -> _Executor:
        task = self._task
        name = log_name(task.topic.name) if isinstance(task, Subscription) else task.name
        slots = Slots(count, threads=count)
        slots.take(count)
        executor = _Executor(
            {name: task}, runners, Admitter(_NO_STORE), slots, self._settings, policy
        )
        policy.attach(_NO_STORE, executor.in_flight)
        return executor


def _in_thread(task: Task[..., Any]) -> Task[..., Any]:
    here = copy.copy(task)
    here.declared = msgspec.structs.replace(task.declared, run_in="thread")
    return here
