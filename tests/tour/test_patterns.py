"""One function for the events of several topics, new ones included, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import ConfigError, DeadEvent, Delivery, Headrace, Reject, Topic
from tests.tour.heard import Heard, Paid

Where = tuple[str, str]


def other_programs(topic: str, shards: int = 1) -> Topic[Paid]:
    """A topic as another program declares it, to prepare events."""
    app = Headrace("memory://")
    return app.topic(topic, Paid, key=lambda event: event.order, shards=shards, codec="json")


async def publish_elsewhere(app: Headrace, topic: Topic[Paid], *orders: str) -> None:
    """Publish as a program does that declares the topic, and no subscription."""
    for order in orders:
        prepared = topic.prepare(Paid(order))
        await app.store.publish(prepared.log, [prepared.parcel])


async def test_a_pattern_serves_declared_topics_and_those_that_appear(
    app: Headrace, heard: Heard
) -> None:
    eu = app.topic("orders.eu", Paid)
    await eu.publish(Paid("before"))

    @app.subscribe("orders.*", "billing", event=Paid)
    async def bill(event: Paid, delivery: Delivery) -> None:
        heard.add("billing", (delivery.topic, event.order))

    await eu.publish(Paid("1"))
    async with app.worker():
        us, spread = other_programs("orders.us"), other_programs("orders.spread", shards=3)
        await publish_elsewhere(app, us, "2", "3")
        await publish_elsewhere(app, spread, "A", "B")
        await publish_elsewhere(app, other_programs("bills.us"), "no")
        late = app.topic("orders.late", Paid)
        await late.publish(Paid("4"))
        await heard.until(billing=6)
        # A shard that nobody had published to.
        await publish_elsewhere(app, spread, *"CDEFGH")
        await heard.until(billing=12)
        groups = {topic.name: topic.groups for topic in await app.admin.topics()}
        served = {queue for worker in await app.admin.workers() for queue in worker.queues}
    assert sorted(heard["billing"]) == sorted(
        [("orders.eu", "1"), ("orders.late", "4"), ("orders.us", "2"), ("orders.us", "3")]
        + [("orders.spread", key) for key in "ABCDEFGH"]
    )
    assert [each.name for each in groups["orders.us"]] == ["billing"]
    assert not groups["bills.us"]
    assert "billing@orders.eu" in served


async def test_what_appears_while_no_worker_runs_is_not_missed(app: Headrace, heard: Heard) -> None:
    @app.subscribe(["orders.*", "bills"], "archive")
    async def keep(data: bytes, delivery: Delivery) -> None:
        heard.add("archive", (delivery.topic, data, delivery.event.content_type))

    old = other_programs("orders.old")
    await publish_elsewhere(app, old, "before")
    async with app.worker():
        while not (await app.admin.topic("orders.old")).groups:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await publish_elsewhere(app, old, "1")
        await heard.until(archive=1)
    for topic in ("orders.new", "bills"):
        await publish_elsewhere(app, other_programs(topic), "2")
    async with app.worker():
        await heard.until(archive=3)
    json = "application/json"
    assert sorted(heard["archive"]) == [
        ("bills", b'{"order":"2","cents":0}', json),
        ("orders.new", b'{"order":"2","cents":0}', json),
        ("orders.old", b'{"order":"1","cents":0}', json),
    ]


async def test_order_batches_and_dead_events_of_a_pattern(app: Headrace, heard: Heard) -> None:
    async def died(event: Paid, dead: DeadEvent) -> None:
        heard.add("dead", (dead.event.topic, event.order))

    @app.subscribe("orders.*", "ledger", event=Paid, ordered=True, on_failure="skip", on_dead=died)
    async def book(event: Paid) -> None:
        heard.add("ledger", event.cents)
        if event.cents == 2:
            raise Reject("no")

    @app.subscribe(["orders.eu", "orders.us"], "load", event=Paid, batch=2, max_wait=0.01)
    async def load(events: list[Paid]) -> None:
        for event in events:
            heard.add("load", event.cents)

    eu = app.topic("orders.eu", Paid, key=lambda event: event.order)
    us = other_programs("orders.us")
    async with app.worker():
        await eu.publish_many([Paid("k", number) for number in range(5)])
        await publish_elsewhere(app, us, "k")
        await heard.until(ledger=6, load=6, dead=1)
    assert [cents for cents in heard["ledger"] if cents] == [1, 2, 3, 4]
    assert heard["dead"] == [("orders.eu", "k")]


async def test_a_worker_is_given_a_pattern_or_one_of_its_topics(
    app: Headrace, heard: Heard
) -> None:
    @app.subscribe("orders.*", "billing", event=Paid)
    async def bill(event: Paid, delivery: Delivery) -> None:
        heard.add(delivery.topic, event.order)

    app.topic("orders.eu", Paid)
    us, asia = other_programs("orders.us"), other_programs("orders.asia")
    async with app.worker(queues=["billing@orders.us"]):
        await publish_elsewhere(app, asia, "1")
        await publish_elsewhere(app, us, "1")
        await app.topics["orders.eu"].publish(Paid("1"))
        await heard.until(**{"orders.us": 1})
    assert heard["orders.asia"] == heard["orders.eu"] == []
    async with app.worker(queues=["billing@orders.*"]):
        await heard.until(**{"orders.asia": 1, "orders.eu": 1})
    with pytest.raises(ConfigError, match="no subscription for"):
        app.worker(queues=["billing@bills"])


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_subscription_that_does_not_fit_a_topic_is_in_the_way_of_no_other(
    app: Headrace, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    @app.subscribe(["orders.us", "bills"], "refused")
    async def never(event: Paid) -> None:
        raise AssertionError

    @app.subscribe("orders.*", "billing", event=Paid)
    async def bill(event: Paid, delivery: Delivery) -> None:
        heard.add("billing", event.order)

    async with app.worker():
        await publish_elsewhere(app, other_programs("orders.us"), "1")
        await heard.until(billing=1)
        await publish_elsewhere(app, other_programs("orders.eu"), "2")
        await heard.until(billing=2)
    (refused,) = [record for record in caplog.records if "is not served" in record.getMessage()]
    assert "annotated Paid, but the topic's events are of type bytes" in refused.getMessage()
    assert "crashed" not in caplog.text


async def test_what_does_not_fit_is_refused_when_it_is_declared(app: Headrace) -> None:
    app.topic("orders.eu", Paid)
    notes = app.topic("notes.a", str)

    async def takes_paid(event: Paid) -> None: ...
    async def takes_both(event: Paid | bytes) -> None: ...

    def refused(match: str, *args: Any, **options: Any) -> None:
        with pytest.raises(ConfigError, match=match):
            app.subscribe(*args, **options)(takes_paid)

    refused("come as bytes", "orders.*", "billing")
    refused("annotated Paid, but .* str", "*", "billing", event=Paid)
    refused("give the topic one", "orders.*", "billing", event=Paid, ordered=True)
    refused("names no topic", [], "billing")
    refused("has no 'colour'", "orders.*", "billing", event=Paid, colour="red")
    refused("needs ordered", "orders.*", "billing", event=Paid, on_failure="skip")
    assert app.patterns == []
    app.subscribe("orders.*", "billing")(takes_both)
    refused("choose another name", "*.eu", "billing", event=Paid)
    with pytest.raises(ConfigError, match="has 'billing' already"):
        app.topics["orders.eu"].subscribe("billing")(takes_paid)
    with pytest.raises(ConfigError, match="annotated"):
        app.topic("orders.text", str)
    with pytest.raises(ConfigError, match="stands for any text"):
        app.topic("orders.*", Paid)
    assert list(app.topics) == ["orders.eu", "notes.a"]
    assert notes.subscriptions == {}


def test_a_function_for_dead_events_that_is_none_is_refused_when_it_is_declared() -> None:
    app = Headrace("memory://")
    not_one: Any = 3
    with pytest.raises(ConfigError, match="on_dead: it goes on a function, not on 3"):

        @app.subscribe("orders.*", "billing", event=Paid, on_dead=not_one)
        async def bill(event: Paid) -> None: ...
