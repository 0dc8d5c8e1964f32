"""Has deliveries recorded before their outcomes are settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from headrace.audit.audit import Trail
from headrace.audit.record import AuditRecord, ending_of
from headrace.audit.sinks import Writing
from headrace.client.topic.subscription import Subscription
from headrace.core.job import ids
from headrace.core.job.envelope import NO_OVERRIDES
from headrace.core.job.failure import describe
from headrace.core.job.outcome import Outcome
from headrace.core.topic.event import trace_id_of
from headrace.errors import AuditError
from headrace.worker.observer import Observe
from headrace.worker.run.outcomes import details
from headrace.worker.run.run import Run

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_A_HURRY = 1.0

OutcomeOf = Callable[[Run, BaseException], Outcome]


class _Failure(NamedTuple):
    trail: Trail
    place: int
    error: BaseException


class _Open(NamedTuple):
    trail: Trail
    place: int
    writing: Writing


class Auditing:
    """For the runs of one loop: jobs, or events of one subscription. Never fails, and cannot be
    cancelled: only the timeout of an audit, or a worker that hurries, cuts a recording short."""

    def __init__(
        self,
        trails: Sequence[Trail],
        subscription: Subscription[..., Any] | None,
        now_ms: Callable[[], int],
        observe: Observe | None = None,
    ) -> None:
        self._trails = trails
        self._subscription = subscription
        self._now_ms = now_ms
        self._observe = observe
        self._outcome_of: OutcomeOf | None = None
        self._open: set[Writing] = set()
        self._hurried = False

    def attach(self, outcome_of: OutcomeOf) -> None:
        """Set what decides the outcome of deliveries that could not be recorded."""
        self._outcome_of = outcome_of

    def hurry(self) -> None:
        """Give the sinks one more second, now and from now on."""
        self._hurried = True
        if self._open:
            asyncio.get_running_loop().call_later(_IN_A_HURRY, self._cut, set(self._open))

    async def outcomes(self, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Record runs; the outcomes to settle."""
        failures: list[_Failure] = []
        opened: list[_Open] = []
        for place, (run, outcome) in enumerate(zip(runs, outcomes, strict=True)):
            self._begin(place, run, outcome, opened, failures)
        if opened:
            await self._written(opened, failures)
        settled = list(outcomes)
        for trail, place, error in failures:
            self._report(trail, runs[place], error)
            if trail.audit.on_error == "fail" and settled[place] is outcomes[place]:
                settled[place] = self._failed(runs[place], outcomes[place], trail, error)
        return settled

    def _begin(
        self,
        place: int,
        run: Run,
        outcome: Outcome,
        opened: list[_Open],
        failures: list[_Failure],
    ) -> None:
        record = self._record(run, outcome)
        payload = run.envelope.payload if hasattr(run, "envelope") else None
        for trail in self._trails:
            try:
                writing = trail.write(record, payload)
            except Exception as error:
                failures.append(_Failure(trail, place, error))
            else:
                if writing is not None:
                    opened.append(_Open(trail, place, writing))

    async def _written(self, opened: Sequence[_Open], failures: list[_Failure]) -> None:
        """Wait for each trail as long as it may take; all began at the same time."""
        began, longest = time.monotonic(), _IN_A_HURRY if self._hurried else float("inf")
        self._open.update(one.writing for one in opened)
        for trail in self._trails:
            mine = [one for one in opened if one.trail is trail]
            patience = min(trail.audit.patience, longest)
            if mine:
                await _all_done([one.writing for one in mine], began + patience)
            for one in mine:
                error = _error_of(one.writing, patience)
                if error is not None:
                    failures.append(_Failure(trail, one.place, error))
        self._open.difference_update(one.writing for one in opened)

    def _cut(self, writings: set[Writing]) -> None:
        for writing in writings & self._open:
            writing.cancel()

    def _report(self, trail: Trail, run: Run, error: BaseException) -> None:
        trail.complain(error)
        if self._observe is not None:
            self._observe("audit", error, {**details(run), "sink": trail.audit.name})

    def _failed(self, run: Run, outcome: Outcome, trail: Trail, error: BaseException) -> Outcome:
        """The outcome of a run that could not be recorded: a success fails, any other stays."""
        ended = ending_of(outcome, len(run.history.attempts)).outcome
        if self._outcome_of is None or ended not in ("done", "defer"):
            return outcome
        kind, text, _ = describe(error)
        failure = AuditError(f"it could not be recorded in {trail.audit.name}: {kind}: {text}")
        failure.__cause__ = error
        return self._outcome_of(run, failure)

    def _record(self, run: Run, outcome: Outcome) -> AuditRecord:
        delivery, source = run.delivery, self._subscription
        envelope = run.envelope if hasattr(run, "envelope") else None
        overrides = NO_OVERRIDES if envelope is None else envelope.overrides
        ending = ending_of(outcome, len(run.history.attempts))
        ended_at = _EPOCH + timedelta(milliseconds=self._now_ms())
        took = time.monotonic() - run.started if run.has_begun else 0.0
        task = "" if envelope is None else envelope.task
        return AuditRecord(
            kind="job" if source is None else "event",
            id=ids.to_text(delivery.job_id) if delivery.job_id else "",
            queue=delivery.queue,
            topic="" if source is None else source.topic.name,
            group="" if source is None else source.wants.group,
            task=task if source is None else source.name,
            attempt=run.attempt,
            delivery=run.fence,
            outcome="lost" if run.lease_lost else ending.outcome,
            reason=ending.reason,
            error_type=ending.error_type,
            error_text=ending.error_text,
            started_at=ended_at - timedelta(seconds=took) if run.has_begun else None,
            ended_at=ended_at,
            duration_ms=took * 1000,
            worker=run.settings.worker,
            trace_id=trace_id_of(overrides.headers) or overrides.correlation,
            correlation_id=overrides.correlation,
            headers=overrides.headers,
            size=0 if envelope is None else len(envelope.payload),
        )


async def _all_done(writings: Sequence[Writing], ends_at: float) -> None:
    while (left := ends_at - time.monotonic()) > 0:
        try:
            await asyncio.wait(writings, timeout=left)
            return
        except asyncio.CancelledError:
            # Too late to cancel: the run has ended, and is only not recorded yet.
            continue


def _error_of(writing: Writing, patience: float) -> BaseException | None:
    if not writing.done():
        writing.cancel()
        return TimeoutError(f"no answer within {patience:g} s")
    if writing.cancelled():
        return TimeoutError("it was cut short")
    return writing.exception()
