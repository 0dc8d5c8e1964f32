"""Events of a topic that is declared elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.core.job.envelope import FORMAT, Envelope, Overrides
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.core.payload.content import codec_for
from headrace.core.topic.undeclared_schema import UndeclaredSchema

EVENT = {"order_id": "o-1", "cents": 995}
AS_JSON = b'{"order_id":"o-1","cents":995}'
AS_MSGPACK = msgspec.msgpack.encode(EVENT)


class Paid(msgspec.Struct):
    order_id: str


def schema_of(kind: Any) -> UndeclaredSchema:
    return UndeclaredSchema("orders", codec_for("msgpack", kind))


def sent(payload: bytes, content: str = "", version: int = 1) -> Envelope:
    overrides = Overrides(content=content, version=version)
    return Envelope(FORMAT, bytes(16), "@orders", payload, overrides)


@pytest.mark.parametrize("version", [1, 2, 7])
@pytest.mark.parametrize(("payload", "content"), [(AS_MSGPACK, ""), (AS_JSON, "application/json")])
def test_an_event_is_read_by_its_content_type_whatever_its_version(
    payload: bytes, content: str, version: int
) -> None:
    envelope = sent(payload, content, version)
    assert schema_of(Any).decode(envelope) == EVENT
    assert schema_of(Paid).decode(envelope) == Paid("o-1")


@pytest.mark.parametrize("content", ["", "application/json", "application/avro"])
def test_as_bytes_the_event_is_what_travels(content: str) -> None:
    assert schema_of(bytes).decode(sent(b"\xc1{", content, 3)) == b"\xc1{"


@pytest.mark.parametrize(
    ("payload", "content", "says"),
    [
        (b"\xc1", "", "cannot be read as Paid by codec 'msgpack'"),
        (b"{}", "application/json", "by codec 'json': its field 'order_id' is missing"),
        (b"", "application/avro", "comes as 'application/avro', which cannot be decoded as Paid"),
    ],
)
def test_an_event_that_does_not_fit_is_dead_and_says_why(
    payload: bytes, content: str, says: str
) -> None:
    with pytest.raises(Unfit, match=says) as caught:
        schema_of(Paid).decode(sent(payload, content))
    assert caught.value.reason is Reason.BAD_EVENT
