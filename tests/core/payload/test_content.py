"""Codecs: events as bytes and back."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from headrace.core.payload import codecs
from headrace.core.payload.codecs import EventCodec
from headrace.core.payload.content import Content, codec_for
from headrace.errors import ConfigError
from tests.core.messages import Paid


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Order:
    order_id: UUID
    at: datetime
    due: date
    within: timedelta
    colour: Colour
    lines: list[Line]
    tags: set[str]
    counts: dict[int, float]
    label: bytes
    place: PurePosixPath
    note: str | None = None


class Node(msgspec.Struct):
    name: str
    children: list[Node] = []


class Parcel(msgspec.Struct, tag=True):
    grams: int


class Letter(msgspec.Struct, tag=True):
    stamped: bool


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    name: str = pydantic.Field(alias="customerName")
    since: datetime
    photo: bytes = b""

    @pydantic.computed_field
    def initial(self) -> str:
        return self.name[0]


class Strict(pydantic.BaseModel, strict=True):
    at: datetime
    tags: list[str]


class Address(TypedDict):
    city: str


ORDER = Order(
    order_id=UUID(int=7),
    at=datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    due=date(2026, 1, 9),
    within=timedelta(hours=1.5),
    colour=Colour.RED,
    lines=[Line("a", Decimal("9.95"))],
    tags={"x", "y"},
    counts={1: 0.5},
    label=b"\x00\xff",
    place=PurePosixPath("hall/3"),
)
CUSTOMER = Customer(customerName="Ada", since=datetime(2026, 1, 2, tzinfo=UTC), photo=b"\x00\xff")

EVENTS: list[tuple[Any, Any]] = [
    (Order, ORDER),
    (Customer, CUSTOMER),
    (Strict, Strict(at=datetime(2026, 1, 2, tzinfo=UTC), tags=["x"])),
    (Node, Node("root", [Node("leaf", [Node("tip")])])),
    (Parcel | Letter, Letter(stamped=True)),
    (list[Customer], [CUSTOMER]),
    (Address, {"city": "Ulm"}),
    (dict[str, int], {"a": 1}),
    (bytes, b"\x00\xff"),
    (int, 2**53 - 1),
    (Any, {"a": [1, None, "x"]}),
    (object, ["anything"]),
    (None, None),
]


@pytest.mark.parametrize("name", ["msgpack", "json"])
@pytest.mark.parametrize(("kind", "event"), EVENTS, ids=lambda x: getattr(x, "__name__", "")[:20])
def test_an_event_comes_back_as_it_was(name: str, kind: Any, event: Any) -> None:
    codec = codec_for(name, kind)
    assert codec.decode(codec.encode(event)) == event


@pytest.mark.parametrize("name", ["msgpack", "json"])
def test_what_is_plain_can_be_built_again(name: str) -> None:
    codec = codec_for(name, Order)
    plain = codec.plain(codec.encode(ORDER))
    assert isinstance(plain, dict)
    assert codec.built(plain) == ORDER


def test_plain_data_may_hold_what_the_codec_makes_plain() -> None:
    for name in ("msgpack", "json"):
        codec = codec_for(name, Order)
        plain = codec.plain(codec.encode(ORDER))
        changed = {**plain, "due": ORDER.due, "label": ORDER.label, "lines": ORDER.lines}
        assert codec.built(changed) == ORDER


def test_json_is_what_other_programs_read() -> None:
    codec = codec_for("json", Line)
    assert codec.encode(Line("a", Decimal("9.95"))) == b'{"sku":"a","price":"9.95"}'


def test_raw_bytes_travel_as_they_are() -> None:
    codec = codec_for("raw", bytes)
    for event in (b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")):
        data = codec.encode(event)
        assert data == b"\x00\xff"
        assert type(codec.decode(data)) is bytes
    with pytest.raises(TypeError, match="bytes are wanted, not str"):
        codec.encode("text")


def test_a_protobuf_message_travels_in_its_own_form() -> None:
    codec = codec_for("protobuf", Paid)
    event = Paid(order_id="o-1", cents=995)
    data = codec.encode(event)
    assert data == event.SerializeToString()
    assert codec.decode(data) == event


def test_a_protobuf_message_without_a_required_field_is_refused_by_its_name() -> None:
    with pytest.raises(Exception, match="order_id"):
        codec_for("protobuf", Paid).encode(Paid(cents=1))


def test_protobuf_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(ConfigError, match=r"install .headrace\[protobuf\]"):
        codec_for("protobuf", Paid)


def test_the_content_type_says_which_codec_reads_it() -> None:
    for name, kind in (("msgpack", Order), ("json", Order), ("raw", bytes), ("protobuf", Paid)):
        codec = codec_for(name, kind)
        assert codecs.codec_name(codec.content_type) == name
        assert codecs.codec_name(codec.on_the_wire) == name
    assert codec_for("msgpack", Order).on_the_wire == ""
    assert codecs.codec_name("Application/JSON; charset=utf-8") == "json"
    assert codecs.codec_name("application/avro") is None


@dataclass
class Left:
    x: int


@dataclass
class Right:
    y: int


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("raw", str, "codec 'raw' is for events of type bytes, not str"),
        ("raw", Order, "not Order: make the event type bytes, or leave the codec away"),
        ("protobuf", Order, "for message classes that protoc makes, not Order"),
        ("protobuf", int, "for message classes that protoc makes, not int"),
        ("msgpack", complex, "events of type complex cannot travel as msgpack"),
        ("json", list[complex], r"events of type list\[complex\] cannot travel as json"),
        ("msgpack", Paid, "use codec='protobuf'"),
        ("msgpack", Left | Right, "structs with tag=True, or have a topic for each"),
        ("json", list[Left | Right], "structs with tag=True, or have a topic for each"),
        ("avro", Order, "there is no codec 'avro': use 'msgpack', 'json', 'raw', 'protobuf', or"),
    ],
)
def test_a_type_that_cannot_travel_by_the_codec_is_refused(name: str, kind: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        codec_for(name, kind)


def test_a_type_that_cannot_be_resolved_is_refused() -> None:
    class Unresolved(msgspec.Struct):
        what: NowhereToBeFound  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match="NowhereToBeFound"):
        codec_for("msgpack", Unresolved)


@dataclass
class Csv:
    """A codec of one's own."""

    name: Any = "csv"
    content_type: Any = "text/csv"
    encode: Any = field(default=lambda event: ",".join(event).encode())
    decode: Any = field(default=lambda data: data.decode().split(","))


def test_a_codec_of_ones_own_is_used_as_it_is() -> None:
    codec = codec_for(Csv(), list[str])
    assert (codec.name, codec.content_type, codec.on_the_wire) == ("csv", "text/csv", "text/csv")
    assert codec.encode(["a", "b"]) == b"a,b"
    assert codec.decode(b"a,b") == ["a", "b"]


def test_a_codec_of_ones_own_must_make_bytes() -> None:
    codec = codec_for(Csv(encode=str), list[str])
    with pytest.raises(TypeError, match="codec 'csv' made str of it, not bytes"):
        codec.encode(["a"])


async def _asynchronous(_: Any) -> None: ...


@pytest.mark.parametrize(
    ("custom", "says"),
    [
        (42, "a codec is a name, or an object with name, encode and decode, not 42"),
        (Csv, "a codec is a name, or an object"),
        (Csv(name=""), "its name must be a short text"),
        (Csv(name="json"), "'json' is the name of another"),
        (Csv(content_type=None), "its content_type must be a short text"),
        (Csv(content_type="csv"), "must be a media type such as 'application/avro', not 'csv'"),
        (Csv(decode="no"), "its decode must be an ordinary function"),
        (Csv(encode=_asynchronous), "its encode must be an ordinary function"),
    ],
)
def test_a_codec_that_cannot_work_is_refused(custom: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        codec_for(custom, list[str])


def test_every_codec_is_what_users_may_write_themselves() -> None:
    codec: EventCodec = codec_for("json", Order)
    assert isinstance(codec, EventCodec)
    assert isinstance(codec, Content)


def test_a_payload_can_be_read_without_its_topic() -> None:
    assert codecs.readable("", codec_for("msgpack", Line).encode(Line("a", Decimal(1)))) == {
        "sku": "a",
        "price": "1",
    }
    assert codecs.readable("application/json", b'{"a":1}') == {"a": 1}
    assert codecs.readable("application/json", b"{") == b"{"
    assert codecs.readable("", b"\xc1") == b"\xc1"
    assert codecs.readable("application/octet-stream", b"\x01") == b"\x01"
    assert codecs.readable("text/csv", b"a,b") == b"a,b"


def test_json_has_no_word_for_infinity() -> None:
    codec = codec_for("json", dict[str, float | None])
    assert codec.decode(codec.encode({"a": math.inf})) == {"a": None}
    exact = codec_for("msgpack", dict[str, float | None])
    assert exact.decode(exact.encode({"a": math.inf})) == {"a": math.inf}
