"""Spans around sending and publishing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from headrace.client.job import Job, Send, SendMany
from headrace.client.topic.publication import Publication, Publish, PublishOutcome
from headrace.core.job.retry import full_name
from headrace.core.task.call import Call
from headrace.core.task.send_options import SendOptions
from headrace.errors import ConfigError
from headrace.exposition.tracing.carrier import Carrier, fitting
from headrace.exposition.tracing.spans import (
    COUNT,
    ERROR_TYPE,
    MESSAGE_ID,
    TracerSource,
    attributes,
    common,
    span_name,
)


class SendSpans:
    """One span for all jobs of a send: a span for each would say no more, and cost as much as the
    jobs."""

    def __init__(self, source: TracerSource, carrier: Carrier) -> None:
        self._source = source
        self._carrier = carrier

    async def one(self, call: Call[Any], send: Send) -> Job[Any]:
        span = self._started("send", call.queue, call.task)
        try:
            job = await send(_stamped([call], self._carrier.inject(span))[0])
            if span.is_recording():
                span.set_attribute(MESSAGE_ID, job.id)
            return job
        except BaseException as error:
            _note_failure(span, error)
            raise
        finally:
            span.end()

    async def many(self, calls: Sequence[Call[Any]], send: SendMany) -> list[Job[Any]]:
        calls = [_checked(call) for call in calls]
        queue, task = common(call.queue for call in calls), common(call.task for call in calls)
        span = self._started("send", queue, task, len(calls))
        try:
            return await send(_stamped(calls, self._carrier.inject(span)))
        except BaseException as error:
            _note_failure(span, error)
            raise
        finally:
            span.end()

    async def publish(self, publication: Publication, publish: Publish) -> PublishOutcome[Any]:
        count = len(publication.events)
        log = publication.topic.task
        span = self._started("publish", log, None, None if count == 1 else count)
        try:
            self._stamp(publication, span)
            outcome = await publish(publication)
            if span.is_recording():
                _note_outcome(span, outcome)
            return outcome
        except BaseException as error:
            _note_failure(span, error)
            raise
        finally:
            span.end()

    def _started(
        self, operation: str, queue: str | None, task: str | None, count: int | None = None
    ) -> Span:
        noted = attributes(operation, "send", queue, task)
        return self._source.tracer.start_span(
            span_name(operation, queue),
            kind=SpanKind.PRODUCER,
            attributes=noted if count is None else {**noted, COUNT: count},
            record_exception=False,
            set_status_on_exception=False,
        )

    def _stamp(self, publication: Publication, span: Span) -> None:
        given = publication.options.get("headers") or {}
        if isinstance(given, Mapping):
            publication.options["headers"] = fitting(self._carrier.inject(span), given)


def _checked(call: Any) -> Call[Any]:
    if not isinstance(call, Call):
        raise ConfigError(f"enqueue_many() takes calls; send {call!r} with enqueue()")
    return call


def _stamped(calls: Sequence[Call[Any]], headers: Mapping[str, str]) -> list[Call[Any]]:
    """The calls with these headers; calls that share options share the new options too."""
    if not headers:
        return list(calls)
    made: dict[int, SendOptions] = {}
    stamped: list[Call[Any]] = []
    for call in calls:
        options = made.get(id(call.options))
        if options is None:
            given = call.options.overrides.headers
            options = call.options.changed(headers=fitting(headers, given))
            made[id(call.options)] = options
        stamped.append(call.with_options(options))
    return stamped


def _note_outcome(span: Span, outcome: PublishOutcome[Any]) -> None:
    if len(outcome) == 1 and outcome[0].id is not None:
        span.set_attribute(MESSAGE_ID, outcome[0].id)
    failed = outcome.failed
    if failed and failed[0].error is not None:
        _note_failure(span, failed[0].error)


def _note_failure(span: Span, error: BaseException) -> None:
    if span.is_recording():
        span.set_attribute(ERROR_TYPE, full_name(type(error)))
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.record_exception(error)
