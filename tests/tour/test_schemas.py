"""Events by every codec, and of other versions than the reader's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import EventError
from tests.core.messages import Paid
from tests.core.payload.test_content import Csv


@dataclass
class Order:
    order_id: str
    cents: int


ORDER = Order("o-1", 995)


@pytest.mark.parametrize(
    ("codec", "kind", "event", "content_type"),
    [
        ("msgpack", Order, ORDER, "application/vnd.msgpack"),
        ("json", Order, ORDER, "application/json"),
        ("raw", bytes, b"\x00\xff", "application/octet-stream"),
        ("protobuf", Paid, Paid(order_id="o-1", cents=995), "application/x-protobuf"),
        (Csv(), list[str], ["o-1", "995"], "text/csv"),
    ],
)
async def test_an_event_travels_by_the_codec_of_its_topic(
    app: Headrace, codec: Any, kind: Any, event: Any, content_type: str
) -> None:
    orders = app.topic("orders", kind, codec=codec)
    await orders.publish(event)
    (read,) = await orders.read()
    assert read.data == event
    assert read.content_type == content_type


async def test_an_older_event_is_read_as_one_of_today(app: Headrace) -> None:
    await app.topic("orders", dict[str, Any]).publish({"order_id": "o-1", "euros": 9.95})
    deploy(app)
    (read,) = await app.topic("orders", Order, version=2, upcast=in_cents).read()
    assert (read.version, read.data) == (1, ORDER)


async def test_an_event_of_a_version_that_is_not_known_says_what_to_do(app: Headrace) -> None:
    await app.topic("orders", Order, version=2).publish(ORDER)
    deploy(app)
    (read,) = await app.topic("orders", Order).read()
    with pytest.raises(EventError, match="expects 1: upgrade the subscriber"):
        _ = read.data


async def test_events_from_before_a_change_of_codec_are_still_read(app: Headrace) -> None:
    await app.topic("orders", Order).publish(ORDER)
    deploy(app)
    orders = app.topic("orders", Order, codec="json")
    await orders.publish(ORDER)
    assert [event.data for event in await orders.read()] == [ORDER, ORDER]


def deploy(app: Headrace) -> None:
    """Another program takes this one's place, on the same store."""
    app.topics.clear()


def in_cents(old: Any, version: int) -> Any:
    return {"order_id": old["order_id"], "cents": round(old["euros"] * 100)}


async def test_an_event_that_does_not_fit_is_not_published(app: Headrace) -> None:
    orders = app.topic("orders", Order)
    with pytest.raises(EventError, match="its events are of type Order, not dict"):
        await orders.publish({"order_id": "o-1"})  # type: ignore[arg-type]
    with pytest.raises(EventError, match="field 'cents' cannot travel"):
        await orders.publish(Order("o-1", 1j))  # type: ignore[arg-type]
    assert await orders.read() == []
