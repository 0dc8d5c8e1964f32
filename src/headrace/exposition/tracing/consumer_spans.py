"""Spans of a worker: around runs, and of the reads that bring jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Any, assert_never

from opentelemetry import context as current
from opentelemetry.context import Context as SpanScope
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, set_span_in_context

from headrace.audit.record import Ending
from headrace.client.context import Context
from headrace.client.topic.subscription import Subscription
from headrace.core.job.retry import RemoteError, full_name
from headrace.errors import RetryLater, TaskCancelled, TaskControl
from headrace.exposition.tracing.carrier import Carrier, fitting
from headrace.exposition.tracing.spans import (
    ATTEMPT,
    COUNT,
    ERROR_TYPE,
    FAILED,
    MESSAGE_ID,
    OUTCOME,
    SUBSCRIPTION,
    TracerSource,
    attributes,
    common,
    span_name,
)
from headrace.middleware.views import JobRun, Received
from headrace.middleware.wrapping import Proceed

# On the path of every job: found once.
_attach = current.attach
_ASKED_FOR = (TaskControl, TaskCancelled, asyncio.CancelledError)
_LATER = full_name(RetryLater)


class ProcessSpans:
    def __init__(self, source: TracerSource, carrier: Carrier, *, link_only: bool) -> None:
        self._source = source
        self._carrier = carrier
        self._link_only = link_only
        self._unsampled = carrier.unsampled

    def wants(self, run: JobRun) -> bool:
        """Whether the run needs a span. A run of an unsampled trace only gets its trace attached,
        so that spans made in it are dropped too; its context is its own, so nothing is detached."""
        if self._link_only or not self._source.drops_unsampled:
            return True
        scope = self._unsampled(run.headers)
        if scope is None or run.task.declared.batch:
            return True
        _attach(scope)
        return False

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        scope = self._parent(run)
        span = self._started(run, scope)
        token = current.attach(set_span_in_context(span, scope))
        if run.task.declared.run_in == "process":
            self._send_along(run, span)
        run_span = RunSpan(span, run)
        try:
            value = await proceed()
        except GeneratorExit:
            # Closed by the garbage collector, perhaps in another context: nothing to detach.
            run_span.ended()
            raise
        except BaseException as error:
            current.detach(token)
            run_span.failed(error)
            raise
        current.detach(token)
        run_span.ended()
        return value

    @contextmanager
    def within(self, context: Context) -> Iterator[None]:
        token = current.attach(self._carrier.extract(context.headers))
        try:
            yield
        finally:
            current.detach(token)

    def _parent(self, run: JobRun) -> SpanScope:
        """The context in which the job was sent, not the one in which the worker was started."""
        if run.task.declared.batch:
            return SpanScope()
        return self._carrier.extract(run.headers)

    def _started(self, run: JobRun, scope: SpanScope) -> Span:
        task, queue = run.task, run.queue
        noted: dict[str, str | int] = {**attributes("process", "process", queue, task.name)}
        linked = []
        if task.declared.batch:
            jobs = run.jobs
            noted[COUNT] = len(jobs)
            linked = self._carrier.links(job.headers for job in jobs)
        else:
            noted[MESSAGE_ID], noted[ATTEMPT] = run.id, run.attempt
            if self._link_only:
                scope, linked = SpanScope(), self._carrier.links([run.headers])
        if isinstance(task, Subscription) and task.wants.broadcast:
            noted[SUBSCRIPTION] = task.wants.group
        return self._source.tracer.start_span(
            span_name("process", queue),
            scope,
            SpanKind.CONSUMER,
            noted,
            [Link(context) for context in linked],
            record_exception=False,
            set_status_on_exception=False,
        )

    def _send_along(self, run: JobRun, span: Span) -> None:
        """Pass the span to the process in which the function runs."""
        ours = self._carrier.inject(span)
        given = {name: text for name, text in run.headers.items() if name not in ours}
        run.context.headers = fitting(ours, given)


class RunSpan:
    """Ends a span once the outcome of each of its jobs is known, at the time the function ended.

    A function that has settled its event by hand may go on: its span ends with the function. A
    function that cannot be stopped is not waited for.
    """

    def __init__(self, span: Span, run: JobRun) -> None:
        self._span = span
        self._ended_ns: int | None = None
        self._endings: list[Ending] = []
        self._missing = 0
        if span.is_recording():
            task = run.task
            self._by_hand = isinstance(task, Subscription) and task.wants.ack == "manual"
            self._missing = len(run.jobs)
            run.when_settled(self._settled)

    def ended(self) -> None:
        if not self._span.is_recording():
            return
        self._ended_ns = time_ns()
        if not self._missing:
            self._span.end(self._ended_ns)

    def failed(self, error: BaseException) -> None:
        if self._span.is_recording() and not isinstance(error, _ASKED_FOR):
            self._record(error)
        self.ended()

    def _record(self, error: BaseException) -> None:
        if isinstance(error, RemoteError):
            details = {
                "exception.type": error.names[0],
                "exception.message": str(error),
                "exception.stacktrace": error.traceback,
            }
            self._span.add_event("exception", details)
        else:
            self._span.record_exception(error)

    def _settled(self, ending: Ending) -> None:
        self._endings.append(ending)
        self._missing -= 1
        if self._missing:
            return
        self._set_outcome()
        if self._ended_ns is not None or not self._by_hand:
            self._span.end(self._ended_ns)

    def _set_outcome(self) -> None:
        self._span.set_attribute(OUTCOME, common(one.outcome for one in self._endings) or "mixed")
        failures = [one for one in self._endings if _is_failure(one)]
        if not failures:
            return
        first = failures[0]
        self._span.set_attribute(ERROR_TYPE, first.error_type or first.reason)
        self._span.set_status(Status(StatusCode.ERROR, first.error_text or first.reason))
        if len(self._endings) > 1:
            self._span.set_attribute(FAILED, len(failures))


def _is_failure(ending: Ending) -> bool:
    """A retry or death that the function did not ask for, or for which no attempt was left."""
    match ending.outcome:
        case "retry":
            return ending.error_type != _LATER
        case "dead" | "lost":
            return True
        case "done" | "defer" | "cancelled" | "held" | "released" | "left":
            return False
        case _:
            assert_never(ending.outcome)


class ReceiveSpans:
    def __init__(self, source: TracerSource, carrier: Carrier) -> None:
        self._source = source
        self._carrier = carrier

    def received(self, received: Received) -> None:
        """Make the span of a read, in a trace of its own. It is made after the read, so that one
        that brings nothing leaves no span."""
        queue = received.queue
        span = self._source.tracer.start_span(
            span_name("receive", queue),
            SpanScope(),
            SpanKind.CLIENT,
            {**attributes("receive", "receive", queue), COUNT: len(received)},
            start_time=received.began_ns,
        )
        if span.is_recording():
            for context in self._carrier.links(received.headers()):
                span.add_link(context)
        span.end()
