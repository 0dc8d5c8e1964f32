"""Spans of a worker's reads."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from headrace.exposition.tracing.carrier import Carrier
from headrace.exposition.tracing.conventions import COUNT, attributes, span_name
from headrace.exposition.tracing.tracer import Source
from headrace.middleware.views import Received


class Receiving:
    def __init__(self, source: Source, carrier: Carrier) -> None:
        self._source = source
        self._carrier = carrier

    def received(self, received: Received) -> None:
        """A trace of its own, since a read is part of no other; made when it is over, so that one
        that brings nothing leaves nothing."""
        queue = received.queue
        span = self._source.tracer.start_span(
            span_name("receive", queue),
            Context(),
            SpanKind.CLIENT,
            {**attributes("receive", "receive", queue), COUNT: len(received)},
            start_time=received.began_ns,
        )
        if span.is_recording():
            for context in self._carrier.links(received.headers()):
                span.add_link(context)
        span.end()
