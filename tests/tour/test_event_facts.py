"""What an event says of itself, and a delivery of its way, on every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from headrace import ConfigError, Delivery, EventError, Headrace, Reject, Retry, Topic
from headrace.core.queue_names import shard_of
from tests.tour.heard import Heard, Paid

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, 789_012, tzinfo=timezone(timedelta(hours=2)))


async def test_when_it_happened_travels_beside_when_it_was_published(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid, delivery: Delivery) -> None:
        heard.add("billing", delivery)

    before = datetime.now(UTC) - timedelta(seconds=5)
    async with app.worker():
        await orders.publish(Paid("o-1"), occurred_at=LONG_AGO)
        await orders.publish(Paid("o-2"))
        await heard.until(billing=2)
    late, plain = sorted(heard["billing"], key=lambda each: str(each.key))
    assert late.occurred_at == LONG_AGO
    assert late.time > before
    assert plain.occurred_at == plain.time
    assert [event.occurred_at for event in await orders.read()] == [LONG_AGO, plain.time]
    shown = await app.admin.read("orders")
    assert [event.occurred_at for event in shown] == [LONG_AGO, plain.time]


async def test_a_delivery_knows_its_shard_and_its_place_in_the_log(
    app: Headrace, heard: Heard
) -> None:
    topic = app.topic("spread", Paid, key=lambda event: event.order, shards=3)

    @topic.subscribe("plain")
    async def plain(event: Paid, delivery: Delivery) -> None:
        heard.add("plain", (event.order, delivery.shard, await delivery.place()))

    @topic.subscribe("ordered", ordered=True)
    def ordered(event: Paid, delivery: Delivery) -> None:
        fact = (event.order, delivery.shard, delivery.place_sync())
        loop.call_soon_threadsafe(heard.add, "ordered", fact)

    loop = asyncio.get_running_loop()
    async with app.worker():
        await topic.publish_many([Paid(key) for key in ("A", "B", "o-1")])
        await heard.until(plain=3, ordered=3)
    read = {event.data.order: event.place for event in await topic.read()}
    shards = {key: shard_of(key, 3) for key in read}
    expected = {(key, shards[key], read[key]) for key in shards}
    assert None not in read.values()
    assert set(heard["plain"]) == set(heard["ordered"]) == expected


async def test_a_delivery_knows_how_often_it_came_and_died(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing", retry=Retry(2, backoff=[0.0], jitter=False))
    async def bill(event: Paid, delivery: Delivery) -> None:
        heard.add("billing", (delivery.attempt, delivery.redeliveries, delivery.deaths))
        if delivery.attempt == 2:
            raise Reject("no")
        raise ConnectionError("not now")

    async with app.worker():
        id = await orders.publish(Paid("o-1"))
        for lives in (1, 2, 3):
            await heard.until(billing=2 * lives)
            while not await app.admin.dead("billing@orders"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if lives < 3:
                await app.admin.replay(id)
    assert heard["billing"] == [(n, n - 1, deaths) for deaths in (0, 1, 2) for n in (1, 2)]


async def test_a_topic_that_requires_keys_refuses_events_without_one(app: Headrace) -> None:
    topic = app.topic("keyed", str, key=lambda text: text or None, require_key=True)
    bare = app.topic("bare", str, require_key=True)
    for publish in (topic.publish(""), bare.publish("x")):
        with pytest.raises(EventError, match="no key"):
            await publish
    outcome = await topic.publish_many(["a", "", "b"])
    assert [result.ok for result in outcome] == [True, False, True]
    await bare.publish("x", key="k")
    assert [event.key for event in await bare.read()] == ["k"]


async def test_an_ordered_group_that_requires_keys_makes_its_topic_require_them(
    app: Headrace, heard: Heard
) -> None:
    topic = app.topic("moves", str)

    @topic.subscribe("ledger", ordered=True, require_key=True)
    async def book(text: str) -> None:
        heard.add("ledger", text)

    with pytest.raises(EventError, match="no key"):
        await topic.publish("unordered")
    # A publisher that does not know of it: what it publishes is not handled out of order.
    unaware = Headrace("memory://").topic("moves", str)
    async with app.worker():
        await app.store.publish("@moves", [unaware.prepare("unordered").parcel])
        await topic.publish("a", key="k")
        await heard.until(ledger=1)
        while not (dead := await app.admin.dead("ledger@moves")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [each.reason for each in dead] == ["bad_event"]
    assert "has no key" in str(dead[0].error_text)
    assert heard["ledger"] == ["a"]


def test_what_cannot_be_required_is_refused(app: Headrace) -> None:
    options: Any = {"require_key": "yes"}
    with pytest.raises(ConfigError, match="require_key must be True or False"):
        app.topic("odd", str, **options)
    topic = app.topic("orders", Paid)
    with pytest.raises(ConfigError, match="needs ordered=True"):
        topic.subscribe("billing", require_key=True)(print_it)


async def print_it(event: Paid) -> None: ...
