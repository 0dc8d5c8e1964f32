"""The value or the error of a run as an outcome."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.client.fallback import Fallback
from headrace.client.topic.subscription import Subscription
from headrace.core import codec
from headrace.core.bounds import RESULT_TTL
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.failure import (
    FailedRun,
    GateClosed,
    PayloadUnavailable,
    Unfit,
    cut_short,
    decide_outcome,
)
from headrace.core.job.outcome import (
    DONE,
    RELEASED,
    Cancelled,
    Dead,
    Done,
    Outcome,
    Released,
    Retried,
)
from headrace.core.job.retry import MAX_DEFERS, OnTimeout, Retry, names_of, timeout_means
from headrace.core.job.state import Reason
from headrace.core.job.unknown import NotKnownHere, back_for_others
from headrace.core.job.verdict import CANCELLED_VERDICT, done_verdict, lost_verdict
from headrace.errors import AuditError, Defer, LeaseLost, TaskControl
from headrace.worker.observer import Observe
from headrace.worker.run.results import ResultUnfit, is_needed, result_of, verdict_of
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.threads.thread_function import finished

log = logging.getLogger("headrace.worker")


# Asked for by the task, or observed already.
_NOT_OBSERVED = (TaskControl, GateClosed, AuditError)
# What a function says after it was asked to end: that counts, and not that it took too long.
_SAID = (TaskControl, Unfit)


class Outcomes:
    """Decides the outcomes of runs, by `core/job/failure.py` and by why the worker ended them.
    Unless they are `kept`, what this worker does not know cannot wait for another."""

    def __init__(
        self,
        settings: RunSettings,
        observe: Observe | None = None,
        *,
        kept: bool = True,
        ready_ms: Callable[[LeasedDelivery], int] | None = None,
    ) -> None:
        self._settings = settings
        self._ready_ms = ready_ms
        self._kept = kept
        self._worker = settings.worker
        self._max_payload = settings.max_payload
        self._now_ms = settings.now_ms
        self._observe = observe
        self._failures = settings.failures
        self._done_with_none: dict[float, Done] = {}
        """Most functions return None: one outcome for all whose result is kept as long."""

    def of_value(self, run: Run, value: Any) -> Outcome:
        """May raise: a result that cannot be kept is an error like any other."""
        ttl = run.task.declared.result_ttl
        if not ttl and not run.envelope.overrides.flow and run.task.on_success is None:
            return DONE
        if value is None:
            return self._done_with_none.get(ttl) or self._remembered(ttl)
        data = result_of(run, value, self._max_payload)
        return Done(verdict_of(run, data), int(ttl * 1000))

    def _remembered(self, ttl: float) -> Done:
        done = Done(done_verdict(codec.encode(None)), int(ttl * 1000))
        return self._done_with_none.setdefault(ttl, done)

    def of_answer(self, run: Run, value: Any, error: BaseException | None) -> Outcome:
        """The outcome of a plain function, which has returned or raised this."""
        if error is not None:
            return self.of_error(run, error)
        try:
            return self.of_value(run, None if value is None else finished(value))
        except BaseException as failure:
            return self.of_error(run, failure)

    def of_answers(self, runs: Sequence[Run], answers: Sequence[Any]) -> list[Outcome]:
        """The outcomes of the jobs of a batch, each with its value or its error."""
        outcomes: list[Outcome] = []
        for run, answer in zip(runs, answers, strict=True):
            try:
                if isinstance(answer, BaseException):
                    outcomes.append(self.of_error(run, answer))
                else:
                    outcomes.append(self.of_value(run, answer))
            except BaseException as error:
                outcomes.append(self.of_error(run, error))
        return outcomes

    def of_error(self, run: Run, error: BaseException) -> Outcome:
        """Whatever happens, there is an outcome: an error that cannot be judged is replaced."""
        try:
            if isinstance(error, ResultUnfit) and not is_needed(run):
                return self._without_result(run, error)
            return self._decide(run, error)
        except BaseException as trouble:
            named = f"{type(error).__name__}, which could not be judged: {type(trouble).__name__}"
            # Without the exception: showing it may fail as judging it did.
            log.error("job %s raised %s", run.delivery.id_text, named, extra=run.fields)
            return self._decide(run, RuntimeError(f"the task raised {named}"))

    def _without_result(self, run: Run, lost: ResultUnfit) -> Done:
        """The function has done its work, which may have taken hours: that is not lost for what it
        returned."""
        if self._failures is not None:
            self._failures.result_lost(run, str(lost))
        ttl_ms = int(run.task.declared.result_ttl * 1000)
        return Done(lost_verdict(str(lost), lost.shown), ttl_ms)

    def note(self, run: Run, error: BaseException) -> None:
        """Log an error that changes nothing: the function had settled its event before."""
        trouble = None if run.manual is None else run.manual.trouble
        event = run.delivery.id_text
        if error is trouble:
            # Its decision was not written, and it got this error.
            log.warning(
                "event %s was not settled as its function said: %s", event, error, extra=run.fields
            )
            return
        when = "after it was settled" if trouble is None else "after it could not be settled"
        log.error("event %s failed %s", event, when, exc_info=error, extra=run.fields)
        if self._observe is not None:
            self._observe("handler", error, {**details(run), "settled": trouble is None})

    def _decide(self, run: Run, error: BaseException) -> Outcome:
        if isinstance(error, NotKnownHere):
            back = self._back_for_others(run, error)
            if back is not None:
                if self._settings.failed is not None:
                    self._settings.failed(run, error, back)
                return back
        elif not isinstance(error, Unfit):
            # Whatever the task raised: it was cut short, which is no failure.
            if run.cancelled:
                return self._cancelled(run)
            if run.handed_back or self._is_torn_down(run, error):
                return _released(run)
            if run.gate:
                error = GateClosed(run.gate)
        on_timeout: OnTimeout | None = None
        if run.lease_lost:
            error = LeaseLost(f"another worker has job {run.delivery.id_text} now")
        elif run.timed_out and not isinstance(error, _SAID):
            error = TimeoutError(_too_long(run)).with_traceback(error.__traceback__)
            said, declared = run.envelope.overrides.on_timeout, run.task.declared.on_timeout
            on_timeout = timeout_means(said, declared)
        if self._observe is not None and not isinstance(error, _NOT_OBSERVED):
            self._observe(_scope(run), error, details(run))
        failed = self._failed(run, error, on_timeout)
        outcome = decide_outcome(failed)
        if self._settings.failed is not None:
            self._settings.failed(run, error, outcome)
        if self._failures is not None:
            if isinstance(outcome, Dead) or not _is_put_off(failed):
                self._failures.note(run, names_of(error)[0], failed.retry.max_attempts)
            elif isinstance(error, PayloadUnavailable):
                self._failures.put_off(run, ", its payload cannot be had", str(error))
            elif not isinstance(error, (Defer, GateClosed)):
                self._failures.put_off(run, "", str(error))
        return outcome

    def _is_torn_down(self, run: Run, error: BaseException) -> bool:
        """Whether a run was cancelled together with its worker, as `asyncio.run` does at its end,
        and not because of what it did."""
        ended_here = run.timed_out or run.lease_lost
        cut = isinstance(error, asyncio.CancelledError) and not ended_here
        return cut and self._settings.torn_down()

    def _failed(self, run: Run, error: BaseException, on_timeout: OnTimeout | None) -> FailedRun:
        ended = time.monotonic()
        ended_ms = self._now_ms()
        spent_ms = int((ended - run.started) * 1000) if run.has_begun else 0
        retry, ttl, max_defers = _policy(run)
        return FailedRun(
            error=error,
            history=run.history,
            delivered=run.delivery.count,
            started_ms=ended_ms - spent_ms,
            ended_ms=ended_ms,
            worker=self._worker,
            retry=retry,
            result_ttl_ms=int(ttl * 1000),
            on_timeout=on_timeout,
            max_defers=max_defers,
            ready_ms=self._ready_ms(run.delivery) if self._ready_ms else 0,
        )

    def _back_for_others(self, run: Run, error: NotKnownHere) -> Retried | None:
        settings = self._settings
        if not self._kept or run.lease_lost:
            return None
        now_ms, after_ms = self._now_ms(), settings.unknown_after_ms
        if settings.fallback is not None and error.reason is Reason.UNKNOWN_TASK:
            after_ms = settings.fallback.after_ms
        back = back_for_others(run.history, run.delivery.count, now_ms, after_ms)
        if back is not None and settings.unknown is not None:
            dead_ms = (run.history.unknown_since_ms or now_ms) + after_ms
            task = run.envelope.task if hasattr(run, "envelope") else ""
            settings.unknown.met(task, run.delivery, error, dead_ms)
        return back

    def _cancelled(self, run: Run) -> Cancelled:
        """Kept for a while even if results are not, as for jobs that are cancelled in the store."""
        _, ttl, _ = _policy(run)
        history = b""
        if run.has_begun:
            ended_ms = self._now_ms()
            started_ms = ended_ms - int((time.monotonic() - run.started) * 1000)
            count = run.delivery.count
            history = cut_short(run.history, count, started_ms, ended_ms, self._worker)
        return Cancelled(CANCELLED_VERDICT, int((ttl or RESULT_TTL) * 1000), history)


def details(run: Run) -> dict[str, Any]:
    """The details of a run for error hooks."""
    details = {
        "queue": run.delivery.queue,
        "id": run.delivery.id_text,
        "attempt": run.attempt,
        "worker": run.settings.worker,
    }
    return {**details, "task": run.task.name} if hasattr(run, "task") else details


def _scope(run: Run) -> str:
    if run.lease_lost:
        return "lease"
    return "handler" if run.has_begun else "intake"


def _released(run: Run) -> Released:
    """Back to where the sender put it, or to where its task runs in this version of the program."""
    runner = run.task.declared.run_in
    if runner == run.envelope.runner or isinstance(run.task, (Subscription, Fallback)):
        return RELEASED
    return Released(runner)


def _too_long(run: Run) -> str:
    return f"the job ran longer than its timeout of {run.timed_out:g} s"


def _is_put_off(failed: FailedRun) -> bool:
    """Whether no attempt has failed, unless the job is dead."""
    uncounted = isinstance(failed.error, (Defer, GateClosed, PayloadUnavailable))
    return uncounted or failed.on_timeout == "defer"


def _policy(run: Run) -> tuple[Retry, float, int | None]:
    """The retry policy, result time and bound on deferring of a run that may have failed before its
    task was known."""
    try:
        overrides, declared = run.envelope.overrides, run.task.declared
    except AttributeError:
        return Retry(), RESULT_TTL, MAX_DEFERS
    retry = overrides.retry.policy() if overrides.retry else declared.retry
    max_defers = declared.max_defers
    if overrides.max_defers is not None:
        max_defers = overrides.max_defers if overrides.max_defers >= 0 else None
    return retry, declared.result_ttl, max_defers
