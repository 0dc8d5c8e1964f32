"""What readers see of an event."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from headrace import Event, EventError
from headrace.core.job import ids
from headrace.core.job.envelope import NO_OVERRIDES, Envelope, Overrides, encode_envelope
from headrace.core.job.failure import PayloadUnavailable, Unfit
from headrace.core.job.state import Reason
from headrace.core.topic.event import read_event, trace_id_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def decode(envelope: Envelope) -> str:
    if envelope.payload == b"bad":
        raise Unfit(Reason.BAD_EVENT, "it is bad")
    return envelope.payload.decode()


def made(
    payload: bytes = b"paid", overrides: Overrides = NO_OVERRIDES, key: bytes = b""
) -> Event[str]:
    data = encode_envelope(key or ids.new_id(), "@orders", payload, overrides)
    return read_event(data, b"", "orders", decode, "OrderPaid")


def test_an_event_has_all_that_its_envelope_says() -> None:
    headers = {"traceparent": TRACE, "tenant": "eu"}
    event = made(
        overrides=Overrides(
            headers=headers,
            sent_ms=1_000,
            key="o-1",
            kind="Refund",
            source="shop",
            correlation="c-1",
            content="application/json",
            version=3,
        ),
        key=ids.to_id("order-5"),
    )
    assert (event.id, event.topic, event.key) == ("order-5", "orders", "o-1")
    assert (event.type, event.source, event.correlation_id) == ("Refund", "shop", "c-1")
    assert event.time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (event.content_type, event.version) == ("application/json", 3)
    assert dict(event.headers) == headers
    assert event.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert event.span_id == "b7ad6b7169203331"
    assert (event.data, event.raw) == ("paid", b"paid")


def test_what_is_not_said_is_as_the_topic_declares() -> None:
    before = datetime.now(UTC)
    event = made()
    assert (event.type, event.content_type, event.version) == (
        "OrderPaid",
        "application/vnd.msgpack",
        1,
    )
    assert event.key is event.source is event.correlation_id is event.trace_id is None
    assert event.time is not None
    assert abs((event.time - before).total_seconds()) < 5


@pytest.mark.parametrize("trace", ["", "00-xyz", "00-" + "0" * 31 + "-b7ad6b7169203331-01"])
def test_a_trace_that_is_none_has_no_id(trace: str) -> None:
    assert made(overrides=Overrides(headers={"traceparent": trace})).trace_id is None


@pytest.mark.parametrize("sent_ms", [10**18, -(10**18)])
def test_a_moment_beyond_all_calendars_is_none(sent_ms: int) -> None:
    assert made(overrides=Overrides(sent_ms=sent_ms)).time is None


def test_an_event_that_cannot_be_decoded_says_so_when_it_is_asked_for() -> None:
    event = made(b"bad")
    assert event.raw == b"bad"
    with pytest.raises(EventError, match=f"topic 'orders': event {event.id}: it is bad"):
        _ = event.data


def test_bytes_that_are_no_envelope_are_an_event_without_data() -> None:
    job_id = ids.new_id()
    event = read_event(b"\xc1", job_id, "orders", decode, "OrderPaid")
    assert (event.id, event.topic, event.raw) == (ids.to_text(job_id), "orders", b"\xc1")
    with pytest.raises(EventError, match="not a job envelope"):
        _ = event.data


async def test_a_payload_that_is_kept_elsewhere_is_loaded() -> None:
    async def load(envelope: Envelope) -> Envelope:
        return msgspec.structs.replace(envelope, payload=envelope.payload.upper())

    event = made()
    await event.load(load)
    assert (event.data, event.raw) == ("PAID", b"PAID")


@pytest.mark.parametrize(
    "problem", [PayloadUnavailable("no answer"), Unfit(Reason.BAD_EVENT, "it is gone")]
)
async def test_an_event_whose_payload_cannot_be_loaded_is_an_error_only_for_its_data(
    problem: Exception,
) -> None:
    async def load(envelope: Envelope) -> Envelope:
        raise problem

    event = made(b"bad", Overrides(key="o-1"))
    await event.load(load)
    assert (event.key, event.raw) == ("o-1", b"bad")
    with pytest.raises(EventError, match="it is bad"):
        _ = event.data


def test_an_event_occurred_when_its_publisher_says() -> None:
    event = made(overrides=Overrides(sent_ms=9_000, occurred_us=1_000_001))
    assert event.occurred_at == datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    assert made(overrides=Overrides(occurred_us=10**18)).occurred_at is None


def test_an_event_occurred_when_it_was_published_if_nobody_says() -> None:
    event = made(overrides=Overrides(sent_ms=9_000))
    assert event.occurred_at == event.time == datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC)


def test_an_event_shows_its_id_and_topic() -> None:
    assert repr(made(key=ids.to_id("order-5"))) == "<Event order-5 of 'orders'>"


def test_headers_belong_to_a_trace_or_to_none() -> None:
    assert trace_id_of({"traceparent": TRACE}) == "0af7651916cd43dd8448eb211c80319c"
    assert trace_id_of({"traceparent": TRACE.upper()}) == ""
    assert trace_id_of({"tenant": "eu"}) == ""
