"""Which headers may travel with an event."""

from __future__ import annotations

import pytest

from headrace import ConfigError
from headrace.core.topic.headers import checked_headers, trace_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_ordinary_headers_pass_as_they_are() -> None:
    headers = {"tenant": "eu", "X-Shop": "Zürich", "traceparent": TRACE, "baggage": "a=b"}
    assert checked_headers(headers) == headers


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ("tenant=eu", "map text to text"),
        ({"tenant": 5}, "must be a text"),
        ({5: "eu"}, "name of a header"),
        ({"": "eu"}, "name of a header"),
        ({"x" * 201: "eu"}, "name of a header"),
        ({"two words": "eu"}, "without spaces"),
        ({"näme": "eu"}, "ASCII"),
        ({"tenant": "x" * 8193}, "at most 8,192"),
        ({"tenant": "\ud800"}, "not valid text"),
        ({"traceparent": "x" * 256}, "at most 255"),
        ({"TraceParent": TRACE}, "lower case"),
        ({"content-type": "text/plain"}, "codec="),
        ({"Content_Type": "text/plain"}, "codec="),
        ({"event-version": "2"}, "version="),
        ({"idempotency-key": "1"}, "use id="),
        ({"event-key": "1"}, "use key="),
        ({"event-type": "1"}, "use type="),
        ({"event-source": "1"}, "use source="),
        ({"correlation-id": "1"}, "use correlation_id="),
        ({"Headrace-Attempt": "1"}, "reserved"),
    ],
)
def test_refused(headers: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked_headers(headers)


def test_only_what_is_about_the_trace_is_passed_on() -> None:
    trace = {"traceparent": TRACE, "tracestate": "a=b", "baggage": "c=d"}
    assert trace_of({**trace, "tenant": "eu"}) == trace


def test_a_trace_that_is_too_long_is_not_passed_on() -> None:
    assert trace_of({"traceparent": "x" * 256, "baggage": "é" * 5000, "tracestate": "a=b"}) == {
        "tracestate": "a=b"
    }
