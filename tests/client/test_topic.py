"""Publishing to topics and reading them, on every kind of store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from headrace import (
    ConfigError,
    Context,
    Event,
    EventError,
    EventNotFound,
    GroupNotFound,
    Headrace,
    PayloadTooLarge,
    Topic,
    TopicFull,
)
from headrace.client.context import CurrentRun, running
from headrace.core.job.envelope import decode_envelope
from headrace.core.queue_names import shard_of
from headrace.store.topics import Group, Position

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class OrderPaid:
    order_id: str
    amount: int


class Refunded(msgspec.Struct, tag=True):
    order_id: str


class Shipped(msgspec.Struct, tag=True):
    order_id: str


def paid(number: int) -> OrderPaid:
    return OrderPaid(f"o-{number}", number)


@pytest.fixture
def orders(app: Headrace) -> Topic[OrderPaid]:
    return app.topic("orders", OrderPaid, key=lambda event: event.order_id)


async def amounts(topic: Topic[OrderPaid]) -> list[int]:
    return [event.data.amount for event in await topic.read(limit=10_000)]


async def test_what_is_published_can_be_read(orders: Topic[OrderPaid]) -> None:
    before = datetime.now(UTC)
    id = await orders.publish(paid(1))
    (event,) = await orders.read()
    assert (event.id, event.topic, event.key) == (id, "orders", "o-1")
    assert event.data == paid(1)
    assert (event.type, event.version, event.headers) == ("OrderPaid", 1, {})
    assert event.time is not None
    assert abs((event.time - before).total_seconds()) < 5


async def test_what_is_said_of_an_event_travels_with_it(orders: Topic[OrderPaid]) -> None:
    headers = {"tenant": "eu", "traceparent": TRACE}
    id = await orders.publish(
        paid(1),
        key="other",
        headers=headers,
        id="payment-7",
        type="Paid",
        source="shop",
        correlation_id="c-1",
        expires=60,
    )
    (event,) = await orders.read()
    assert id == event.id == "payment-7"
    assert dict(event.headers) == headers
    assert (event.key, event.type, event.source) == ("other", "Paid", "shop")
    assert (event.correlation_id, event.trace_id) == ("c-1", TRACE.split("-")[1])
    assert event.time is not None


async def test_the_topics_source_is_that_of_its_events(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, source="shop")
    await topic.publish(paid(1))
    await topic.publish(paid(2), source="till")
    assert [event.source for event in await topic.read()] == ["shop", "till"]


async def test_an_id_is_published_once(orders: Topic[OrderPaid]) -> None:
    assert await orders.publish(paid(1), id="a") == "a"
    assert await orders.publish(paid(2), id="a") == "a"
    assert await amounts(orders) == [1]


async def test_events_of_several_types_say_which_they_are(app: Headrace) -> None:
    topic: Topic[Refunded | Shipped] = app.topic("changes", Refunded | Shipped)
    await topic.publish(Refunded("o-1"))
    await topic.publish(Shipped("o-2"))
    events = await topic.read()
    assert [event.type for event in events] == ["Refunded", "Shipped"]
    assert [event.data for event in events] == [Refunded("o-1"), Shipped("o-2")]


async def test_bytes_travel_as_they_are(app: Headrace) -> None:
    topic = app.topic("raw", bytes, codec="raw")
    await topic.publish(b"\x00\xff")
    (event,) = await topic.read()
    assert (event.data, event.raw, event.content_type) == (
        b"\x00\xff",
        b"\x00\xff",
        "application/octet-stream",
    )


async def test_a_delayed_event_is_not_in_the_log_yet(orders: Topic[OrderPaid]) -> None:
    await orders.publish(paid(1), delay=3600)
    await orders.publish(paid(2), at=datetime.now(UTC) + timedelta(hours=1))
    await orders.publish(paid(3))
    assert await amounts(orders) == [3]


def test_code_without_a_loop_can_publish(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace)
    topic = app.topic("orders", OrderPaid)
    try:
        id = topic.publish_sync(paid(1), headers={"tenant": "eu"})
        outcome = topic.publish_many_sync([paid(2), paid(3)])
        events = app.portal.run(topic.read())
        assert [event.id for event in events] == [id, *outcome.ids]
    finally:
        app.portal.close()


# What is refused


@pytest.mark.parametrize("event", ["text", None, {"order_id": "o-1", "amount": 1}])
async def test_an_event_of_another_type_is_refused(orders: Topic[OrderPaid], event: Any) -> None:
    with pytest.raises(EventError, match="topic 'orders': its events are of type OrderPaid"):
        await orders.publish(event)
    assert await orders.read() == []


async def test_an_event_that_cannot_travel_is_refused(orders: Topic[OrderPaid]) -> None:
    wrong: Any = OrderPaid("o-1", threading.Lock())  # type: ignore[arg-type]
    with pytest.raises(EventError, match="field 'amount' cannot travel"):
        await orders.publish(wrong)


@pytest.mark.parametrize("made", ["", 5, "x" * 300, "a\nb", "\ud800"])
async def test_a_key_that_is_none_is_refused(app: Headrace, made: Any) -> None:
    topic = app.topic("orders", OrderPaid, key=lambda event: made)
    with pytest.raises(EventError, match="what key= returned"):
        await topic.publish(paid(1))


async def test_a_key_function_that_fails_is_reported(app: Headrace) -> None:
    topic: Any = app.topic("orders", OrderPaid, key=lambda event: event.colour)
    with pytest.raises(EventError, match="its key= raised AttributeError"):
        await topic.publish(paid(1))


async def test_an_event_may_have_no_key(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, key=lambda event: None)
    await topic.publish(paid(1))
    (event,) = await topic.read()
    assert event.key is None


async def test_an_event_that_is_too_large_is_refused(app: Headrace) -> None:
    topic = app.topic("notes", str, max_payload=100)
    with pytest.raises(PayloadTooLarge, match=r"topic 'notes': the event takes 202 bytes"):
        await topic.publish("x" * 200)
    await topic.publish("x" * 90)


async def test_options_that_contradict_each_other_are_refused(orders: Topic[OrderPaid]) -> None:
    with pytest.raises(ConfigError, match="not both"):
        await orders.publish(paid(1), delay=1, at=datetime.now(UTC))
    with pytest.raises(ConfigError, match="reserved: use correlation_id="):
        await orders.publish(paid(1), headers={"correlation-id": "c"})
    with pytest.raises(ConfigError, match="no 'colour'"):
        await orders.publish(paid(1), colour="red")  # type: ignore[call-arg]
    many: Any = orders.publish_many
    with pytest.raises(ConfigError, match="no 'id'"):
        await many([paid(1)], id="a")


# Many


async def test_many_are_published_in_their_order(orders: Topic[OrderPaid]) -> None:
    outcome = await orders.publish_many((paid(n) for n in range(1234)), headers={"tenant": "eu"})
    assert outcome.ok
    assert len(outcome) == 1234
    assert outcome.failed == []
    assert outcome.to_republish == []
    events = await orders.read(limit=2000)
    assert [event.data.amount for event in events] == list(range(1234))
    found = [event.id for event in events]
    assert found == outcome.ids
    assert found == sorted(set(found))
    assert {event.headers["tenant"] for event in events} == {"eu"}


async def test_a_bad_event_keeps_no_other_from_being_published(orders: Topic[OrderPaid]) -> None:
    events: list[Any] = [paid(1), "text", paid(2), OrderPaid("", 3), paid(4)]
    outcome = await orders.publish_many(events)
    assert [result.ok for result in outcome] == [True, False, True, False, True]
    assert [result.id is None for result in outcome] == [False, True, False, True, False]
    assert [type(result.error) for result in outcome.failed] == [EventError, EventError]
    assert not outcome.ok
    assert outcome.to_republish == []
    assert outcome[-1].ok
    assert [result.ok for result in outcome[1:3]] == [False, True]
    assert await amounts(orders) == [1, 2, 4]


async def test_none_at_all_is_fine(orders: Topic[OrderPaid]) -> None:
    outcome = await orders.publish_many([])
    assert outcome.ok
    assert list(outcome) == []


async def test_a_thousand_at_once_are_all_published(orders: Topic[OrderPaid]) -> None:
    ids = await asyncio.gather(*(orders.publish(paid(n)) for n in range(1000)))
    events = await orders.read(limit=2000)
    assert {event.id for event in events} == set(ids)


# Bounds


async def test_a_full_topic_refuses_more_and_says_what_to_publish_again(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, max_length=3)
    await app.store.join("late@orders", Group(), Position("start"))
    outcome = await topic.publish_many(paid(n) for n in range(5))
    assert [result.ok for result in outcome] == [True, True, True, False, False]
    assert all(isinstance(result.error, TopicFull) for result in outcome.failed)
    with pytest.raises(TopicFull, match="topic 'orders' holds 3 events"):
        await topic.publish(paid(9))
    await app.store.disband("late@orders")
    await app.store.trim("@orders", retention_ms=0, gone_after_ms=1000)
    again = await topic.publish_many(outcome.to_republish)
    assert again.ok
    assert again.ids == [result.id for result in outcome.failed]
    assert [event.data.amount for event in await topic.read()][-2:] == [3, 4]


async def test_a_topic_that_blocks_waits_until_there_is_room(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, max_length=3, overflow="block")
    await app.store.join("late@orders", Group(), Position("start"))
    assert (await topic.publish_many(paid(n) for n in range(3))).ok
    waits = asyncio.create_task(topic.publish_many(paid(n) for n in (3, 4)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await topic.publish(paid(77))
    assert await amounts(topic) == [0, 1, 2]
    await app.store.disband("late@orders")
    assert (await waits).ok
    assert (await amounts(topic))[-2:] == [3, 4]


async def test_a_topic_that_drops_its_oldest_takes_all(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, max_length=3, overflow="drop_oldest")
    await app.store.join("late@orders", Group(), Position("start"))
    outcome = await topic.publish_many(paid(n) for n in range(5))
    assert outcome.ok
    assert await amounts(topic) == [2, 3, 4]


# Shards


async def test_a_topic_that_drops_its_newest_takes_the_first(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, max_length=3, overflow="drop_newest")

    @topic.subscribe("billing")
    async def bill(event: OrderPaid) -> None: ...

    outcome = await topic.publish_many([paid(n) for n in range(5)])
    assert (outcome.ok, outcome.failed, outcome.to_republish) == (True, [], [])
    assert [result.dropped for result in outcome] == [False, False, False, True, True]
    assert [result.id for result in outcome.dropped] == outcome.ids[3:]
    assert await topic.publish(paid(5)) not in [event.id for event in await topic.read()]
    assert [event.data for event in await topic.read()] == [paid(n) for n in range(3)]
    found = await app.admin.topic("orders")
    assert (found.published, found.dropped) == (3, 3)


async def test_events_of_a_key_are_in_one_shard_in_their_order(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, key=lambda event: event.order_id, shards=4)
    events = [OrderPaid(f"o-{n % 10}", n) for n in range(200)]
    assert (await topic.publish_many(events)).ok
    seen = 0
    for shard, log in enumerate(topic.logs):
        logged = [topic._logged(each) for each in await app.store.read(log, limit=1000)]
        seen += len(logged)
        assert {shard_of(event.key or "", 4) for event in logged} <= {shard}
        by_key: dict[str, list[int]] = {}
        for event in logged:
            by_key.setdefault(event.data.order_id, []).append(event.data.amount)
        assert all(found == sorted(found) for found in by_key.values())
    assert seen == 200


async def test_events_without_a_key_are_spread_and_an_id_stays_in_its_shard(
    app: Headrace,
) -> None:
    topic = app.topic("orders", OrderPaid, shards=4)
    for number in range(40):
        for _ in range(2):
            await topic.publish(paid(number), id=f"payment-{number}")
    lengths = [(await app.store.lengths([log]))[log] for log in topic.logs]
    assert sum(lengths) == 40
    assert min(lengths) > 0


# Groups


async def test_a_group_that_is_declared_misses_nothing(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, shards=2)

    @topic.subscribe("billing")
    async def bill(event: OrderPaid) -> None: ...

    await topic.publish(paid(1))

    @topic.subscribe("mail")
    async def mail(event: OrderPaid) -> None: ...

    await topic.publish(paid(2))
    behind: dict[str, int] = {}
    for log in topic.logs:
        for group in (await app.store.groups([log]))[log]:
            behind[group.name] = behind.get(group.name, 0) + group.behind
    assert behind == {"billing": 2, "mail": 1}


async def test_a_group_that_cannot_begin_stops_no_one_from_publishing(app: Headrace) -> None:
    topic = app.topic("orders", OrderPaid, shards=2)

    @topic.subscribe("billing", begin="not-there")
    async def bill(event: OrderPaid) -> None: ...

    await topic.publish(paid(1))
    with pytest.raises(EventNotFound):
        await bill.join(app.store)


@pytest.mark.parametrize("shards", [1, 2])
async def test_a_worker_says_which_group_cannot_begin_where_it_should(
    app: Headrace, shards: int
) -> None:
    topic = app.topic("orders", OrderPaid, shards=shards)

    @topic.subscribe("billing", begin="latest")
    async def bill(event: OrderPaid) -> None: ...

    with pytest.raises(
        EventNotFound, match=r"'orders' .* group 'billing' .*begin= takes"
    ) as refused:
        await app.worker().run()
    assert (refused.value.event_id, refused.value.group) == ("latest", "billing")


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_group_begins_and_is_rewound_where_it_should(app: Headrace, shards: int) -> None:
    topic = app.topic("orders", OrderPaid, shards=shards)
    outcome = await topic.publish_many(paid(n) for n in range(30))
    await asyncio.sleep(0.005)
    moment = datetime.now(UTC)
    await asyncio.sleep(0.005)
    await topic.publish_many(paid(n) for n in range(30, 40))
    in_order = await topic.read()
    for begin in ("start", "new", in_order[12].id, moment):
        name = f"group-{len(topic.subscriptions)}"
        subscription = topic.subscribe(name, begin=begin)(handle)
        await subscription.join(app.store)
    behind = {f"group-{n}": count for n, count in enumerate([40, 0, 28, 10])}
    assert await lag(app, topic) == behind
    assert outcome.ok
    places: list[str | datetime] = [in_order[12].id, "start", moment, "new"]
    for number, place in enumerate(places):
        await topic.rewind(f"group-{number}", to=place)
    assert list((await lag(app, topic)).values()) == [28, 40, 10, 0]


async def handle(event: OrderPaid) -> None: ...


async def lag(app: Headrace, topic: Topic[OrderPaid]) -> dict[str, int]:
    found: dict[str, int] = {}
    for log in topic.logs:
        for group in (await app.store.groups([log]))[log]:
            found[group.name] = found.get(group.name, 0) + group.behind
    return found


async def test_only_a_group_that_is_there_can_be_rewound(orders: Topic[OrderPaid]) -> None:
    await orders.publish(paid(1))
    with pytest.raises(GroupNotFound):
        await orders.rewind("billing", to="start")
    with pytest.raises(ConfigError):
        await orders.rewind("billing@orders", to="start")

    @orders.subscribe("billing")
    async def bill(event: OrderPaid) -> None: ...

    await orders.rewind("billing", to="start")
    with pytest.raises(EventNotFound):
        await orders.rewind("billing", to="not-there")


# Reading


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_topic_is_read_page_by_page(app: Headrace, shards: int) -> None:
    topic = app.topic("orders", OrderPaid, shards=shards)
    outcome = await topic.publish_many(paid(n) for n in range(250))
    found: list[Event[OrderPaid]] = []
    while page := await topic.read(after=found[-1].id if found else None, limit=60):
        assert len(page) <= 60
        found += page
    assert sorted(event.data.amount for event in found) == list(range(250))
    assert {event.id for event in found} == set(outcome.ids)


async def test_a_topic_is_read_from_a_time_on(orders: Topic[OrderPaid]) -> None:
    await orders.publish(paid(1))
    await asyncio.sleep(0.005)
    moment = datetime.now(UTC)
    await asyncio.sleep(0.005)
    await orders.publish(paid(2))
    assert [event.data.amount for event in await orders.read(after=moment)] == [2]
    with pytest.raises(EventNotFound):
        await orders.read(after="not-there")
    with pytest.raises(ConfigError):
        await orders.read(limit=0)


@pytest.mark.parametrize("shards", [1, 3])
async def test_no_event_of_the_same_millisecond_is_passed_over(app: Headrace, shards: int) -> None:
    topic = app.topic("orders", OrderPaid, shards=shards)
    topic.subscribe("old", begin="start")(handle)
    await topic.publish(paid(1), key="a")
    logged = [each for log in topic.logs for each in await app.store.read(log)]
    late = datetime.fromtimestamp(0, UTC) + timedelta(
        milliseconds=logged[0].at_ms, microseconds=999
    )
    assert [event.data.amount for event in await topic.read(after=late)] == [1]
    await topic.subscribe("new", begin=late)(handle).join(app.store)
    await topic.rewind("old", to=late)
    assert await lag(app, topic) == {"new": 1, "old": 1}


async def test_shards_are_read_only_when_no_more_events_of_that_time_can_come(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = app.topic("orders", OrderPaid, shards=2)
    await topic.publish(paid(1), key="a")
    (newest,) = [each.at_ms for log in topic.logs for each in await app.store.read(log)]
    times = iter([newest, newest + 1])
    asked: list[int] = []

    async def time_ms() -> int:
        asked.append(next(times))
        return asked[-1]

    monkeypatch.setattr(app.store, "time_ms", time_ms)
    assert len(await topic.read()) == 1
    assert asked == [newest, newest + 1]


async def test_an_event_that_cannot_be_read_hides_no_other(app: Headrace) -> None:
    other = Headrace(app.url, namespace=app.namespace)
    other._store = app.store
    await other.topic("orders", str).publish("text")
    topic = app.topic("orders", OrderPaid)
    await topic.publish(paid(1))
    bad, good = await topic.read()
    assert good.data == paid(1)
    with pytest.raises(EventError, match="cannot be read as OrderPaid"):
        _ = bad.data


# Passing on


class Run:
    """Stands where the run of a handler stands."""

    def __init__(self, topic: Topic[Any], headers: Mapping[str, str], correlation: str) -> None:
        subscription = topic.subscribe("any")(handle)
        prepared = topic.prepare(paid(0), headers=headers, correlation_id=correlation)
        envelope = decode_envelope(prepared.parcel.envelope)
        self._context = Context(topic.app.job("x"), 1, "w", 1, headers=headers)
        self._context.delivery = subscription.delivery(envelope)

    def context(self) -> Context:
        return self._context


@pytest.fixture
def run(orders: Topic[OrderPaid]) -> Iterator[CurrentRun]:
    headers = {"traceparent": TRACE, "tracestate": "a=b", "tenant": "eu"}
    run = Run(orders, headers, "c-1")
    token = running.set(run)
    yield run
    running.reset(token)


async def test_a_handler_passes_trace_and_correlation_on(
    orders: Topic[OrderPaid], run: CurrentRun
) -> None:
    await orders.publish(paid(1))
    await orders.publish_many([paid(2)])
    for event in await orders.read():
        assert dict(event.headers) == {"traceparent": TRACE, "tracestate": "a=b"}
        assert event.correlation_id == "c-1"


async def test_what_a_handler_says_itself_wins(orders: Topic[OrderPaid], run: CurrentRun) -> None:
    other = TRACE.replace("0af7", "1af7")
    await orders.publish(paid(1), headers={"traceparent": other}, correlation_id="c-2")
    (event,) = await orders.read()
    assert dict(event.headers) == {"traceparent": other}
    assert event.correlation_id == "c-2"


async def test_a_time_that_has_not_come_is_refused(app: Headrace, orders: Topic[OrderPaid]) -> None:
    @orders.subscribe("billing")
    async def bill(event: OrderPaid) -> None: ...

    await orders.publish(paid(1))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for asked in (
        orders.read(after=tomorrow),
        orders.rewind("billing", to=tomorrow),
        app.admin.read("orders", after=tomorrow),
        app.admin.rewind("orders", "billing", to=tomorrow),
    ):
        with pytest.raises(ConfigError, match="a time in the future"):
            await asked
    assert (await app.store.groups(["@orders"]))["@orders"][0].behind == 1
    # Clocks differ a little.
    assert await orders.read(after=datetime.now(UTC) + timedelta(seconds=30)) == []
