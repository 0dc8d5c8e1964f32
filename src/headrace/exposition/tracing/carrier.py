"""The context of a span as headers, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from opentelemetry import baggage, propagate
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace.core.topic.headers import MAX_VALUE

MAX_LINKS = 128
"""As many as the SDK keeps."""
_MAX_HEADERS = 16 * 1024
_IDS = r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})"
_is_parent = re.compile(_IDS + "-([0-9a-f]{2})").fullmatch
_LENGTH, _FLAGS_AT = 55, 53
# As the SDK writes them: with ids that are known to be random, or not.
_UNSAMPLED = ("00", "02")
# The name under which a context has its span is known to the API alone.
(_SPAN,) = set_span_in_context(INVALID_SPAN, Context())
_W3C = {TraceContextTextMapPropagator, W3CBaggagePropagator}


class Carrier:
    """Writes and reads headers as the global propagator does. W3C headers, the default, take a
    fraction of its time."""

    def __init__(self) -> None:
        self._propagator: TextMapPropagator | None = None
        self._is_w3c = False
        self._last = "", Context()

    def inject(self, span: Span) -> dict[str, str]:
        """Headers that carry the span's context; none if it has no context."""
        headers: dict[str, str] = {}
        if not self._w3c():
            propagate.inject(headers, set_span_in_context(span))
            return headers
        context = span.get_span_context()
        if context.is_valid:
            headers["traceparent"] = (
                f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
            )
            if context.trace_state:
                headers["tracestate"] = context.trace_state.to_header()
        if baggage.get_all():
            W3CBaggagePropagator().inject(headers)
        return headers

    def extract(self, headers: Mapping[str, str]) -> Context:
        """The context in headers; empty if they have none."""
        if not headers:
            return Context()
        parent = headers.get("traceparent")
        if parent is None or _has_more(headers) or not self._w3c() or not _is_parent(parent):
            return propagate.extract(headers, Context())
        return Context({_SPAN: _Remote(parent)})

    def unsampled(self, headers: Mapping[str, str]) -> Context | None:
        """The context in headers if its trace is unsampled; None if it is sampled, or if only
        full parsing could say."""
        parent = headers.get("traceparent")
        if parent is None or (len(headers) > 1 and _has_more(headers)):
            return None
        # Jobs that were sent together arrive together.
        last, context = self._last
        if parent == last:
            return context
        if len(parent) != _LENGTH or parent[_FLAGS_AT:] not in _UNSAMPLED or not self._w3c():
            return None
        # The rest is checked when it is read; if it is malformed, there is no trace.
        context = Context({_SPAN: _Remote(parent)})
        self._last = parent, context
        return context

    def links(self, headers: Iterable[Mapping[str, str]]) -> list[SpanContext]:
        """The distinct contexts in the headers of several jobs."""
        found: dict[tuple[int, int], SpanContext] = {}
        for each in headers:
            context = get_current_span(self.extract(each)).get_span_context()
            if context.is_valid:
                found[context.trace_id, context.span_id] = context
                if len(found) == MAX_LINKS:
                    break
        return list(found.values())

    def _w3c(self) -> bool:
        propagator = propagate.get_global_textmap()
        if propagator is not self._propagator:
            parts = getattr(propagator, "_propagators", ())
            self._is_w3c = {type(part) for part in parts} == _W3C
            self._propagator = propagator
        return self._is_w3c


def _has_more(headers: Mapping[str, str]) -> bool:
    """Whether the headers hold more than a span: trace state or baggage."""
    return "tracestate" in headers or "baggage" in headers


def fitting(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """`given` plus those of our headers that fit: tracing must not make a send fail. A trace that
    the caller gave is left alone."""
    if not ours or "traceparent" in given:
        return dict(given)
    room = _MAX_HEADERS - sum(len(name) + len(value) for name, value in given.items())
    fit = {**given}
    for name, value in ours.items():
        room -= len(name) + len(value)
        if room >= 0 and len(value) <= MAX_VALUE and name not in given:
            fit[name] = value
    return fit


class _Remote(NonRecordingSpan):
    """The span in a `traceparent`, parsed on demand: for unsampled traces that is hardly ever."""

    _read: SpanContext | None = None

    def __init__(self, parent: str) -> None:
        self._parent = parent

    def get_span_context(self) -> SpanContext:
        if self._read is None:
            self._read = _read(self._parent)
        return self._read

    def __repr__(self) -> str:
        return f"NonRecordingSpan({self.get_span_context()!r})"


def _read(parent: str) -> SpanContext:
    match = _is_parent(parent)
    if match is None:
        scope = propagate.extract({"traceparent": parent}, Context())
        return get_current_span(scope).get_span_context()
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
