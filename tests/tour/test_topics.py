"""Topics: events, and groups that each get all of them, on every store."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import (
    Context,
    DeadEvent,
    Delivery,
    Headrace,
    Reason,
    Reject,
    Retry,
    Topic,
    TopicFull,
)
from headrace.admin import DeadInfo
from tests.tour.heard import Heard, Paid, paid

SOON = Retry(2, base=0.01, jitter=False)


async def test_each_group_gets_each_event(app: Headrace, orders: Topic[Paid], heard: Heard) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event)

    @orders.subscribe("audit")
    def audit(event: Paid) -> None:
        loop.call_soon_threadsafe(heard.add, "audit", event)

    loop = asyncio.get_running_loop()
    async with app.worker(), app.worker():
        outcome = await orders.publish_many(paid(40))
        await heard.until(billing=40, audit=40)
    assert outcome.ok
    for group in ("billing", "audit"):
        assert Counter(heard[group]) == Counter(paid(40))


async def test_what_fails_in_one_group_is_not_seen_by_another(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing", retry=SOON)
    async def bill(event: Paid, ctx: Context, delivery: Delivery) -> None:
        heard.add("billing", (delivery.id, ctx.attempt))
        raise ConnectionError("the bank did not answer")

    @orders.subscribe("audit")
    async def audit(event: Paid, delivery: Delivery) -> None:
        heard.add("audit", delivery.id)

    async with app.worker():
        event_id = await orders.publish(Paid("o-1"))
        await heard.until(billing=2, audit=1)
        (dead,) = await _dead(app, "billing@orders", 1)
    assert heard["billing"] == [(event_id, 1), (event_id, 2)]
    assert heard["audit"] == [event_id]
    assert (dead.id, dead.reason) == (event_id, Reason.RETRIES_EXHAUSTED)


async def test_a_dead_event_is_replayed_in_its_group_alone(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    mended = False

    @orders.subscribe("billing", retry=Retry(1))
    async def bill(event: Paid) -> None:
        heard.add("billing", event)
        if not mended:
            raise Reject("no such account")

    @orders.subscribe("audit")
    async def audit(event: Paid) -> None:
        heard.add("audit", event)

    async with app.worker():
        event_id = await orders.publish(Paid("o-1"))
        await _dead(app, "billing@orders", 1)
        mended = True
        assert await app.admin.replay([event_id], queue="billing@orders") == 1
        await heard.until(billing=2, audit=1)
    assert heard["audit"] == [Paid("o-1")]
    assert (await app.store.lengths(["@orders"]))["@orders"] == 1


async def test_a_handler_gets_dead_events(app: Headrace, orders: Topic[Paid], heard: Heard) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        raise Reject("no such account")

    @orders.on_dead("billing")
    async def on_death(event: Paid, dead: DeadEvent) -> None:
        heard.add("dead", (event, dead.id, dead.reason))

    async with app.worker():
        event_id = await orders.publish(Paid("o-1"))
        await heard.until(dead=1)
    assert heard["dead"] == [(Paid("o-1"), event_id, Reason.REJECTED)]


async def test_a_group_begins_where_it_says(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    ids = (await orders.publish_many(paid(4))).ids
    await asyncio.sleep(0.02)
    moment = datetime.now(UTC)
    await asyncio.sleep(0.02)
    await orders.publish(Paid("late"))

    def subscribe(group: str, begin: Any) -> None:
        @orders.subscribe(group, begin=begin)
        async def note(event: Paid) -> None:
            heard.add(group, event.order)

    subscribe("new", "new")
    subscribe("start", "start")
    subscribe("id", ids[2])
    subscribe("time", moment)
    async with app.worker():
        await orders.publish(Paid("last"))
        await heard.until(new=1, start=6, id=4, time=2)
    assert heard["new"] == ["last"]
    assert sorted(heard["start"]) == ["last", "late", "o-0", "o-1", "o-2", "o-3"]
    assert sorted(heard["id"]) == ["last", "late", "o-2", "o-3"]
    assert sorted(heard["time"]) == ["last", "late"]


async def test_what_was_published_before_the_first_worker_is_not_missed(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event)

    await orders.publish(Paid("o-1"))
    async with app.worker():
        await heard.until(billing=1)


async def test_a_group_can_be_rewound(app: Headrace, orders: Topic[Paid], heard: Heard) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event)

    @orders.subscribe("audit")
    async def audit(event: Paid) -> None:
        heard.add("audit", event)

    async with app.worker():
        await orders.publish_many(paid(3))
        await heard.until(billing=3, audit=3)
        await orders.rewind("billing", to="start")
        await heard.until(billing=6)
    assert Counter(heard["billing"]) == Counter(paid(3) * 2)
    assert len(heard["audit"]) == 3


async def test_a_log_can_be_read(orders: Topic[Paid]) -> None:
    ids = (await orders.publish_many(paid(5))).ids
    first = await orders.read(limit=2)
    assert [(event.id, event.data) for event in first] == list(zip(ids, paid(2), strict=False))
    rest = await orders.read(after=first[-1].id)
    assert [event.data for event in rest] == paid(5)[2:]


async def test_what_is_said_of_an_event_arrives_with_it(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    invoices = app.topic("invoices", Paid)

    @orders.subscribe("billing")
    async def bill(event: Paid, delivery: Delivery) -> None:
        heard.add("billing", delivery)
        await invoices.publish(event)

    @invoices.subscribe("mail")
    async def mail(event: Paid, delivery: Delivery) -> None:
        heard.add("mail", delivery)

    async with app.worker():
        event_id = await orders.publish(
            Paid("o-1"),
            headers={"tenant": "eu", "traceparent": trace},
            source="web",
            type="OrderPaid",
            correlation_id="c-7",
        )
        await heard.until(mail=1)
    (first,), (second,) = heard["billing"], heard["mail"]
    assert (first.id, first.topic, first.group, first.key) == (event_id, "orders", "billing", "o-1")
    assert (first.type, first.source, first.correlation_id) == ("OrderPaid", "web", "c-7")
    assert first.headers == {"tenant": "eu", "traceparent": trace}
    assert abs(first.time - datetime.now(UTC)) < timedelta(minutes=1)
    # What is published while an event is handled belongs to the same story.
    assert second.headers["traceparent"] == trace
    assert second.correlation_id == "c-7"


async def test_an_event_is_published_once_under_its_id(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    for _ in range(3):
        assert await orders.publish(Paid("o-1"), id="payment-7") == "payment-7"
    assert [event.id for event in await orders.read()] == ["payment-7"]


async def test_bad_events_do_not_keep_others_from_being_published(orders: Topic[Paid]) -> None:
    class Stranger:
        pass

    events: list[Any] = [Paid("o-0"), Stranger(), Paid("o-2")]
    outcome = await orders.publish_many(events)
    assert not outcome.ok
    assert [result.ok for result in outcome] == [True, False, True]
    assert "Stranger" in str(outcome[1].error)
    assert outcome.to_republish == []
    assert [event.data.order for event in await orders.read()] == ["o-0", "o-2"]


async def test_a_delayed_event_comes_at_its_time(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event.order)

    async with app.worker():
        await orders.publish(Paid("later"), delay=0.3)
        await orders.publish(Paid("now"))
        await heard.until(billing=2)
    assert heard["billing"] == ["now", "later"]


async def test_an_expired_event_is_not_handled(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event.order)

    await orders.publish(Paid("old"), expires=0.01)
    await asyncio.sleep(0.05)
    async with app.worker():
        await orders.publish(Paid("new"))
        await heard.until(billing=1)
        (dead,) = await _dead(app, "billing@orders", 1)
    assert heard["billing"] == ["new"]
    assert dead.reason == Reason.EXPIRED


async def test_a_full_topic_refuses(app: Headrace) -> None:
    topic = app.topic("small", Paid, max_length=3)

    @topic.subscribe("billing")
    async def bill(event: Paid) -> None: ...

    outcome = await topic.publish_many(paid(5))
    assert [result.ok for result in outcome] == [True, True, True, False, False]
    assert len(outcome.to_republish) == 2
    with pytest.raises(TopicFull, match="'small' holds 3 events"):
        await topic.publish(Paid("o-9"))


async def test_a_full_topic_lets_publishers_wait(app: Headrace, heard: Heard) -> None:
    topic = app.topic("small", Paid, max_length=3, overflow="block")

    @topic.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event)

    async with asyncio.timeout(30), app.worker():
        assert (await topic.publish_many(paid(20))).ok
        await heard.until(billing=20)
    assert Counter(heard["billing"]) == Counter(paid(20))


async def test_a_full_topic_may_drop_the_oldest(app: Headrace) -> None:
    topic = app.topic("small", Paid, max_length=3, overflow="drop_oldest")

    @topic.subscribe("billing")
    async def bill(event: Paid) -> None: ...

    assert (await topic.publish_many(paid(5))).ok
    assert [event.data for event in await topic.read()] == paid(5)[2:]


async def test_batches_are_filled_and_told_apart(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("warehouse", batch=10, max_wait=0.05, retry=SOON)
    async def load(events: list[Paid]) -> list[Exception | None]:
        heard.add("sizes", len(events))
        bad = [event.order == "o-3" and not heard["failed"] for event in events]
        for event, is_bad in zip(events, bad, strict=True):
            heard.add("failed" if is_bad else "loaded", event)
        return [ConnectionError("full") if is_bad else None for is_bad in bad]

    await orders.publish_many(paid(25))
    async with app.worker():
        await heard.until(loaded=25)
    assert Counter(heard["loaded"]) == Counter(paid(25))
    assert heard["failed"] == [Paid("o-3", 3)]
    assert max(heard["sizes"]) == 10


async def test_everyone_hears_a_broadcast(app: Headrace, orders: Topic[Paid], heard: Heard) -> None:
    @orders.broadcast
    async def drop_cache(event: Paid, ctx: Context) -> None:
        heard.add("caches", (ctx.worker, event.order))

    await orders.publish(Paid("before"))
    async with app.worker(), app.worker():
        await orders.publish(Paid("now"))
        await heard.until(caches=2)
    assert {order for _, order in heard["caches"]} == {"now"}
    assert len({worker for worker, _ in heard["caches"]}) == 2


async def _dead(app: Headrace, queue: str, count: int) -> list[DeadInfo]:
    """The dead events of a group, once there are so many."""
    async with asyncio.timeout(30):
        while len(found := await app.admin.dead(queue)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found
