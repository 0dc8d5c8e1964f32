"""Events of a topic: present, older, newer, and in another content type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest

from headrace.core.job.envelope import Envelope, Overrides, decode_envelope, encode_envelope
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.core.payload.content import codec_for
from headrace.core.topic.schema import Schema
from headrace.errors import ConfigError, EventError
from tests.core.messages import Paid
from tests.core.payload.test_content import Csv


@dataclass
class Money:
    cents: int
    currency: str


@dataclass
class OrderPaid:
    """Version 3: version 1 had `amount` in units, version 2 `cents`."""

    order_id: str
    price: Money
    label: bytes = b""
    at: datetime | None = None


EVENT = OrderPaid("o-1", Money(995, "EUR"))
VERSION_1 = {"order_id": "o-1", "amount": 9.95}
VERSION_2 = {"order_id": "o-1", "cents": 995}


def to_2(old: Any) -> Any:
    return {"order_id": old["order_id"], "cents": round(old["amount"] * 100)}


def to_3(old: Any) -> Any:
    return {"order_id": old["order_id"], "price": {"cents": old["cents"], "currency": "EUR"}}


def upcast(old: Any, version: int) -> OrderPaid:
    cents = old["cents"] if version == 2 else round(old["amount"] * 100)
    return OrderPaid(old["order_id"], Money(cents, "EUR"))


def sent(payload: bytes, *, content: str = "", version: int = 1) -> Envelope:
    """An event as it arrives."""
    overrides = Overrides(content=content, version=version)
    return decode_envelope(encode_envelope(bytes(16), "@orders", payload, overrides))


def published(schema: Schema, event: Any) -> Envelope:
    return sent(schema.encode(event), content=schema.content, version=schema.version)


def refused(schema: Schema, envelope: Envelope) -> tuple[Reason, str]:
    with pytest.raises(Unfit) as caught:
        schema.decode(envelope)
    return caught.value.reason, str(caught.value)


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_an_event_of_the_present_version_is_decoded(codec: Any) -> None:
    schema = Schema.of("orders", OrderPaid, codec, 3, upcast)
    assert schema.decode(published(schema, EVENT)) == EVENT


def test_an_event_without_anything_beside_it_is_messagepack_of_version_1() -> None:
    schema = Schema.of("orders", OrderPaid)
    envelope = decode_envelope(encode_envelope(bytes(16), "@orders", schema.encode(EVENT)))
    assert schema.decode(envelope) == EVENT


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize("upcasts", [upcast, {1: to_2, 2: to_3}])
@pytest.mark.parametrize(("version", "old"), [(1, VERSION_1), (2, VERSION_2)])
def test_an_older_event_is_upcast(codec: Any, upcasts: Any, version: int, old: Any) -> None:
    schema = Schema.of("orders", OrderPaid, codec, 3, upcasts)
    payload = codec_for(codec, Any).encode(old)
    assert schema.decode(sent(payload, content=schema.content, version=version)) == EVENT


def test_the_last_step_may_return_an_event() -> None:
    schema = Schema.of("orders", OrderPaid, "msgpack", 3, {2: lambda old: upcast(old, 2)})
    payload = codec_for("msgpack", Any).encode(VERSION_2)
    assert schema.decode(sent(payload, version=2)) == EVENT


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_bytes_and_times_of_an_older_event_go_through_an_upcast_unharmed(codec: Any) -> None:
    event = OrderPaid("o-1", Money(1, "EUR"), b"\x00\xff", datetime(2026, 1, 2, tzinfo=UTC))
    schema = Schema.of("orders", OrderPaid, codec, 2, lambda old, version: old)
    old = sent(schema.encode(event), content=schema.content, version=1)
    assert schema.decode(old) == event


def test_what_an_upcast_returns_is_checked() -> None:
    schema = Schema.of("orders", OrderPaid, "msgpack", 2, lambda old, version: {"order_id": 7})
    reason, text = refused(schema, sent(b"\x80", version=1))
    assert reason is Reason.WRONG_VERSION
    assert "what the upcast made of it is no OrderPaid" in text
    assert "order_id" in text


def test_an_older_event_without_an_upcast_is_dead_and_says_so() -> None:
    schema = Schema.of("orders", OrderPaid, version=2)
    assert refused(schema, sent(b"\x80", version=1)) == (
        Reason.WRONG_VERSION,
        "the event is of version 1, this subscriber expects 2: give the topic an upcast",
    )


def test_an_event_older_than_the_first_step_is_dead_and_says_so() -> None:
    schema = Schema.of("orders", OrderPaid, "msgpack", 3, {2: to_3})
    reason, text = refused(schema, sent(b"\x80", version=1))
    assert reason is Reason.WRONG_VERSION
    assert text.endswith("this subscriber expects 3: give the topic an upcast from 1")


def test_a_newer_event_asks_for_a_newer_subscriber() -> None:
    schema = Schema.of("orders", OrderPaid)
    assert refused(schema, sent(schema.encode(EVENT), version=2)) == (
        Reason.WRONG_VERSION,
        "the event is of version 2, this subscriber expects 1: upgrade the subscriber",
    )


def test_an_upcast_that_raises_kills_the_event_with_its_words() -> None:
    schema = Schema.of("orders", OrderPaid, "msgpack", 3, upcast)
    reason, text = refused(schema, sent(b"\x80", version=1))
    assert reason is Reason.WRONG_VERSION
    assert text.endswith("the upcast raised KeyError: 'amount'")


def test_an_older_event_that_cannot_be_read_never_reaches_the_upcast() -> None:
    schema = Schema.of("orders", OrderPaid, "msgpack", 3, upcast)
    reason, _ = refused(schema, sent(b"\xc1", version=1))
    assert reason is Reason.BAD_EVENT


def test_events_from_before_a_change_of_codec_are_still_read() -> None:
    before, after = Schema.of("orders", OrderPaid), Schema.of("orders", OrderPaid, "json")
    assert after.decode(published(before, EVENT)) == EVENT
    assert before.decode(published(after, EVENT)) == EVENT


def test_old_events_of_another_codec_are_upcast() -> None:
    schema = Schema.of("orders", OrderPaid, "json", 3, {1: to_2, 2: to_3})
    payload = codec_for("msgpack", Any).encode(VERSION_1)
    assert schema.decode(sent(payload, version=1)) == EVENT


def test_bytes_are_read_however_they_were_wrapped() -> None:
    raw = Schema.of("orders", bytes, "raw")
    for codec in ("msgpack", "json", "raw"):
        assert raw.decode(published(Schema.of("orders", bytes, codec), b"\xff")) == b"\xff"


def test_another_name_of_the_same_content_type_is_understood() -> None:
    schema = Schema.of("orders", Paid, "protobuf")
    event = Paid(order_id="o-1")
    assert schema.decode(sent(schema.encode(event), content="application/protobuf")) == event


@pytest.mark.parametrize("content", ["application/avro", "application/octet-stream", "no such"])
def test_an_unknown_content_type_kills_the_event(content: str) -> None:
    schema = Schema.of("orders", OrderPaid)
    reason, text = refused(schema, sent(b"", content=content))
    assert reason is Reason.BAD_EVENT
    assert f"the event comes as {content!r}, which cannot be decoded as OrderPaid" in text


def test_messagepack_cannot_become_a_protobuf_message() -> None:
    reason, text = refused(Schema.of("orders", Paid, "protobuf"), sent(b"\x80"))
    assert reason is Reason.BAD_EVENT
    assert "comes as 'MessagePack'" in text


def test_many_unknown_content_types_are_not_all_remembered() -> None:
    schema = Schema.of("orders", OrderPaid)
    for number in range(1_000):
        refused(schema, sent(b"", content=f"text/x-{number}"))
    assert len(schema._others) < 200


@pytest.mark.parametrize(
    ("schema", "payload", "says"),
    [
        (Schema.of("t", OrderPaid), b"\xc1", "cannot be read as OrderPaid by codec 'msgpack'"),
        (Schema.of("t", Money), b"\x81\xa5cents\xa1x", "got `str`, at `cents`"),
        (Schema.of("t", Money, "json"), b'{"cents": 1}', "its field 'currency' is missing"),
        (Schema.of("t", Paid, "protobuf"), b"\xff", "by codec 'protobuf': .*shop.Paid"),
        (Schema.of("t", list[str], Csv()), b"\xff", "by codec 'csv': 'utf-8' codec can't decode"),
    ],
)
def test_an_event_that_cannot_be_read_says_why(schema: Schema, payload: bytes, says: str) -> None:
    with pytest.raises(Unfit, match=says) as caught:
        schema.decode(sent(payload, content=schema.content))
    assert caught.value.reason is Reason.BAD_EVENT


def test_upcasts_of_codecs_without_plain_data_take_and_give_bytes() -> None:
    raw = Schema.of("t", bytes, "raw", 2, lambda old, version: old.upper())
    assert raw.decode(sent(b"abc", content=raw.content, version=1)) == b"ABC"
    csv = Schema.of("t", list[str], Csv(), 2, {1: lambda old: old.replace(b";", b",")})
    assert csv.decode(sent(b"a;b", content=csv.content, version=1)) == ["a", "b"]
    proto = Schema.of("t", Paid, "protobuf", 2, lambda old, version: Paid(order_id=old.decode()))
    assert proto.decode(sent(b"o-1", content=proto.content, version=1)) == Paid(order_id="o-1")


class Loose(msgspec.Struct):
    what: Any


class Model(pydantic.BaseModel, arbitrary_types_allowed=True):
    what: Any


@pytest.mark.parametrize("codec", ["msgpack", "json"])
@pytest.mark.parametrize("kind", [Loose, Model])
def test_a_field_that_cannot_travel_is_named(codec: Any, kind: Any) -> None:
    schema = Schema.of("orders", kind, codec)
    with pytest.raises(EventError, match=r"topic 'orders': field \"?'?what\['at'\]") as caught:
        schema.encode(kind(what={"at": object()}))
    assert caught.value.topic == "orders"


@pytest.mark.parametrize(
    ("schema", "event", "says"),
    [
        (Schema.of("t", OrderPaid), {"order_id": "o"}, "events are of type OrderPaid, not dict"),
        (Schema.of("t", Paid, "protobuf"), b"", "events are of type Paid, not bytes"),
        (Schema.of("t", bytes, "raw"), "text", "events are of type bytes, not str"),
        (Schema.of("t", list[str], Csv()), [1], "the event cannot travel: sequence item 0"),
        (Schema.of("t", int), 2**70, "the event cannot travel"),
        (Schema.of("t", Paid, "protobuf"), Paid(), "the event cannot travel: .*order_id"),
    ],
)
def test_an_event_that_does_not_fit_is_refused(schema: Schema, event: Any, says: str) -> None:
    with pytest.raises(EventError, match=f"topic 't': .*{says}"):
        schema.encode(event)


@pytest.mark.parametrize(
    ("version", "upcasts", "says"),
    [
        (0, None, "version must be a whole number of at least 1, not 0"),
        (True, None, "version must be a whole number"),
        (1, upcast, "there are none before version 1"),
        (2, "to_2", "must be an ordinary function, not 'to_2'"),
        (2, to_2, r"upcast\(old, version\) is called with 2 argument"),
        (3, {}, "a function for each version from its first to 2"),
        (3, {1: to_2}, r"a function for each version from its first to 2, not for \[1\]"),
        (3, {0: to_2, 1: to_2, 2: to_3}, "for each version"),
        (3, {2: to_3, 3: to_3}, "for each version"),
        (3, {"2": to_3}, "for each version"),
        (3, {1: to_2, 2: upcast}, "the upcast from 2 is called with 1 argument"),
    ],
)
def test_versions_and_upcasts_that_cannot_work_are_refused(
    version: Any, upcasts: Any, says: str
) -> None:
    with pytest.raises(ConfigError, match=f"topic 'orders': .*{says}"):
        Schema.of("orders", OrderPaid, "msgpack", version, upcasts)


def test_a_codec_that_does_not_fit_is_refused_with_the_topics_name() -> None:
    with pytest.raises(ConfigError, match="topic 'orders': codec 'raw' is for events of type"):
        Schema.of("orders", OrderPaid, "raw")
