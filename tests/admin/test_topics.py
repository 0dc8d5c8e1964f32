"""`app.admin` and topics, on every kind of store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

import msgspec
import pytest

from headrace import (
    ConfigError,
    EventNotFound,
    GroupNotFound,
    Headrace,
    JobNotFound,
    Reason,
    Reject,
    Retry,
    RetryLater,
    State,
    Topic,
    TopicNotFound,
)
from headrace.admin import EventInfo
from headrace.core.job.ids import new_id
from headrace.core.job.parcel import Parcel
from headrace.core.queue_names import shard_of
from headrace.core.topic.subscription import SubscribeKwargs

BILLING = "billing@orders"


class Order(msgspec.Struct):
    id: str
    cents: int = 0


def orders_of(app: Headrace, **options: Any) -> Topic[Order]:
    return app.topic("orders", Order, key=lambda order: order.id, **options)


def rejecting(
    orders: Topic[Order], group: str = "billing", **options: Unpack[SubscribeKwargs]
) -> None:
    """A group that gives up every event without a price."""

    @orders.subscribe(group, **options)
    async def handle(order: Order) -> None:
        if not order.cents:
            raise Reject(f"{order.id} costs nothing")


async def until(app: Headrace, group: str, **wanted: int) -> None:
    """Wait until these counts of a group are as wanted."""
    async with asyncio.timeout(20):
        while True:
            info = await app.admin.queue(group)
            if all(getattr(info, name) == count for name, count in wanted.items()):
                return
            await asyncio.sleep(0.02)


async def worked(app: Headrace, **wanted: int) -> None:
    """Have a worker run until the counts of the group are as wanted."""
    async with app.worker():
        await until(app, BILLING, **wanted)


async def next_millisecond(app: Headrace) -> None:
    """Wait until what is published next comes later by the store's clock."""
    now = await app.store.time_ms()
    while await app.store.time_ms() == now:  # noqa: ASYNC110
        await asyncio.sleep(0)


# Looking


async def test_topics_say_how_long_they_are_and_how_far_their_groups(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    rejecting(orders, ordered=True)
    rejecting(orders, "mail")
    app.topic("news", str)
    await orders.publish_many([Order(f"o-{n}", 0 if n < 2 else 5) for n in range(10)])
    before = await app.admin.topic("orders")
    assert [(group.name, group.behind, group.waiting) for group in before.groups] == [
        ("billing", 10, 10),
        ("mail", 10, 10),
    ]
    async with app.worker(queues=[BILLING]):
        await until(app, BILLING, dead=2, waiting=0, running=0)
    news, found = await app.admin.topics()
    assert (news.name, news.length, news.groups) == ("news", 0, ())
    assert (found.name, found.length) == ("orders", 10)
    assert [shard.log for shard in found.shards] == ["@orders", "@orders#1", "@orders#2"]
    assert sum(shard.length for shard in found.shards) == 10
    billing, mail = found.groups
    assert (billing.ordered, billing.on_failure, mail.ordered) == (True, "block", False)
    assert (billing.behind, billing.waiting, billing.dead, billing.stopped_keys) == (0, 0, 2, 2)
    assert (billing.oldest, billing.age) == (None, None)
    assert (mail.behind, mail.dead, mail.stopped_keys) == (10, 0, 0)
    assert mail.oldest is not None
    assert mail.age is not None
    assert abs(datetime.now(UTC) - mail.oldest) < timedelta(seconds=30)
    assert abs(datetime.now(UTC) - billing.last_seen) < timedelta(minutes=2)
    assert not billing.gone
    assert not billing.paused


async def test_a_topic_says_what_was_published_and_what_was_dropped(app: Headrace) -> None:
    orders = orders_of(app, shards=2, max_length=4, overflow="drop_oldest")
    rejecting(orders)
    fresh = await app.admin.topic("orders")
    assert (fresh.published, fresh.dropped) == (0, 0)
    await orders.publish_many([Order("a", 1) for _ in range(5)])
    found = await app.admin.topic("orders")
    assert (found.length, found.published, found.dropped) == (2, 5, 3)


async def test_a_group_that_no_worker_served_for_long_is_gone(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app, group_gone_after=60)
    rejecting(orders, timeout=30)
    await orders.publish(Order("a", 1))
    assert not (await app.admin.topic("orders")).groups[0].gone
    now_ms = await app.store.time_ms()

    async def later() -> int:
        return now_ms + 61_000

    monkeypatch.setattr(app.store, "time_ms", later)
    assert (await app.admin.topic("orders")).groups[0].gone


async def test_a_topic_that_is_not_there(app: Headrace) -> None:
    assert await app.admin.topics() == []
    for question in (
        app.admin.topic("orders"),
        app.admin.read("orders"),
        app.admin.rewind("orders", "billing", "start"),
        app.admin.dead(BILLING),
    ):
        with pytest.raises(TopicNotFound, match="no topic 'orders'"):
            await question


async def test_events_are_read_decoded_without_their_type(app: Headrace, namespace: str) -> None:
    orders = orders_of(app, source="shop", version=3, shards=2)
    blobs = app.topic("blobs", bytes, codec="raw")
    notes = app.topic("notes", Order, codec="json")
    first = await orders.publish(
        Order("a", 1), headers={"who": "ann"}, correlation_id="c-1", type="Paid"
    )
    second = await orders.publish(Order("b", 2), id="second")
    await blobs.publish(b"\x80\x04<script>")
    await notes.publish(Order("c", 3))
    bare = app if app.url.startswith("memory") else Headrace(app.url, namespace=namespace)
    async with bare:
        event, other = await bare.admin.read("orders")
        assert (event.id, event.topic, event.key, event.type) == (first, "orders", "a", "Paid")
        assert (event.source, event.version, event.correlation_id) == ("shop", 3, "c-1")
        assert (event.headers, event.data) == ({"who": "ann"}, {"id": "a", "cents": 1})
        assert event.content_type == "application/vnd.msgpack"
        assert event.time is not None
        assert [each.id for each in await bare.admin.read("orders", after=first)] == [second]
        assert (other.id, other.type) == ("second", "Order" if bare is app else None)
        assert len(await bare.admin.read("orders", limit=1)) == 1
        assert [each.data for each in await bare.admin.read("blobs")] == [b"\x80\x04<script>"]
        (note,) = await bare.admin.read("notes")
        assert (note.content_type, note.data) == ("application/json", {"id": "c", "cents": 3})
        with pytest.raises(EventNotFound):
            await bare.admin.read("orders", after="never")


async def test_what_is_no_event_is_shown_as_bytes(app: Headrace) -> None:
    orders_of(app)
    await app.store.publish("@orders", [Parcel(new_id(), b"\xc1nonsense")])
    (event,) = await app.admin.read("orders")
    assert event.data == b"\xc1nonsense"


# Moving and removing groups


async def test_a_group_is_rewound_in_all_shards(app: Headrace) -> None:
    orders, seen = orders_of(app, shards=2), asyncio.Queue[str]()

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen.put_nowait(order.id)

    for name in "abcd":
        await orders.publish(Order(name), id=name)
        await next_millisecond(app)
    async with app.worker(), asyncio.timeout(20):
        assert sorted([await seen.get() for _ in range(4)]) == list("abcd")
        await app.admin.rewind("orders", "billing", "start")
        assert sorted([await seen.get() for _ in range(4)]) == list("abcd")
        await app.admin.rewind("orders", "billing", "c")
        assert sorted([await seen.get() for _ in range(2)]) == list("cd")
    with pytest.raises(GroupNotFound, match="no group 'mail'"):
        await app.admin.rewind("orders", "mail", "start")
    with pytest.raises(EventNotFound):
        await app.admin.rewind("orders", "billing", "z")
    with pytest.raises(ConfigError, match="time zone"):
        await app.admin.rewind("orders", "billing", datetime(2020, 1, 1))


async def test_a_group_is_removed_once_no_worker_serves_it(app: Headrace) -> None:
    orders = orders_of(app, shards=2)
    rejecting(orders)
    await orders.publish_many([Order("a"), Order("b")])
    async with app.worker():
        await until(app, BILLING, dead=2)
        with pytest.raises(ConfigError, match=r"serves group 'billing'.*force"):
            await app.admin.remove_group("orders", "billing")
    await app.admin.remove_group("orders", "billing")
    assert (await app.admin.topic("orders")).groups == ()
    assert await app.admin.dead() == []
    with pytest.raises(GroupNotFound):
        await app.admin.remove_group("orders", "billing")
    with pytest.raises(GroupNotFound):
        await app.admin.remove_group("orders", "nobody")


async def test_a_removed_group_is_made_anew_by_a_publisher_whose_app_declares_it(
    tmp_path: Path,
) -> None:
    async def published() -> list[str]:
        """The groups that are there once a process of its own has published."""
        async with Headrace(f"sqlite:///{tmp_path}/jobs.db") as app:
            orders = orders_of(app)
            rejecting(orders)
            await orders.publish(Order("a"))
            found = [group.name for group in (await app.admin.topic("orders")).groups]
            await app.admin.remove_group("orders", "billing")
            await orders.publish(Order("b"))
            assert (await app.admin.topic("orders")).groups == ()
            return found

    assert await published() == ["billing"]
    assert await published() == ["billing"]


async def test_a_group_is_removed_by_force(app: Headrace) -> None:
    rejecting(orders_of(app))
    async with app.worker():
        async with asyncio.timeout(20):
            while not (await app.store.groups(["@orders"]))["@orders"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        with pytest.raises(ConfigError, match="billing"):
            await app.admin.remove_group("orders", "billing")
        await app.admin.remove_group("orders", "billing", force=True)
        assert not (await app.store.groups(["@orders"]))["@orders"]


# Keys


async def test_a_stopped_key_is_listed_and_freed(app: Headrace) -> None:
    orders = orders_of(app, shards=2)
    rejecting(orders, ordered=True)
    first = await orders.publish(Order("a"))
    await orders.publish_many([Order("a", 1), Order("b", 1), Order("a", 2)])
    async with app.worker():
        await until(app, BILLING, dead=1, blocked=2, running=0, waiting=0)
        (stopped,) = await app.admin.stopped_keys("orders", "billing")
        assert (stopped.key, stopped.state, stopped.event) == ("a", "blocked", first)
        assert stopped.waiting == 2
        assert abs(datetime.now(UTC) - stopped.since) < timedelta(seconds=30)
        (group,) = (await app.admin.topic("orders")).groups
        assert (group.behind, group.lag, group.stopped_events) == (0, 2, 2)
        assert group.stopped_since == stopped.since
        counted = [each for each in await app.admin.group_counts() if each.stopped_keys]
        assert [(each.stopped_keys, each.stopped_events) for each in counted] == [(1, 2)]
        assert not await app.admin.free_key("orders", "billing", "b")
        assert await app.admin.free_key("orders", "billing", "a")
        await until(app, BILLING, dead=1, blocked=0, running=0, waiting=0)
    (group,) = (await app.admin.topic("orders")).groups
    assert (group.lag, group.stopped_events, group.stopped_since) == (0, 0, None)
    assert await app.admin.stopped_keys("orders", "billing") == []


async def test_a_failed_key_is_listed_until_it_is_freed(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders, ordered=True, on_failure="fail_key")
    first = await orders.publish(Order("a"))
    later = await orders.publish(Order("a", 1))
    async with app.worker():
        await until(app, BILLING, dead=2)
        (stopped,) = await app.admin.stopped_keys("orders", "billing")
        assert (stopped.key, stopped.state, stopped.event) == ("a", "failed", first)
        why = await app.admin.why(later)
        assert "is dead (key_failed)" in why
        assert f"its key 'a' is failed, because event {first} went dead" in why
        assert await app.admin.free_key("orders", "billing", "a")
        assert await app.admin.replay(later) == 1
        await until(app, BILLING, dead=1, waiting=0, running=0)


# What works for a queue works for a group


async def test_groups_are_not_listed_among_the_queues(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders)
    await orders.publish(Order("a"))
    await app.admin.pause(BILLING)
    assert await app.admin.queues() == []


async def test_dead_events_of_a_group_are_found_in_all_shards(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    rejecting(orders)
    rejecting(orders, "mail")
    ids = {await orders.publish(Order(f"o-{n}"), headers={"n": str(n)}) for n in range(6)}
    async with app.worker():
        await until(app, BILLING, dead=6)
        await until(app, "mail@orders", dead=6)
    found = await app.admin.dead(BILLING)
    assert {info.id for info in found} == ids
    assert {info.queue for info in found} == {
        f"{BILLING}#{shard}" if shard else BILLING
        for shard in {shard_of(f"o-{n}", 3) for n in range(6)}
    }
    assert len(await app.admin.dead()) == 12
    info = found[0]
    assert (info.task, info.reason, info.error_text) == (
        "@orders",
        "rejected",
        f"{info.arguments['id']} costs nothing",
    )
    assert isinstance(info.event, EventInfo)
    assert (info.event.key, info.event.topic) == (info.arguments["id"], "orders")
    assert (await app.admin.dead_job(info.id, "mail@orders")).queue.startswith("mail@orders")
    with pytest.raises(JobNotFound):
        await app.admin.dead_job("never")


async def test_a_replay_in_one_group_leaves_the_others_alone(app: Headrace) -> None:
    orders = orders_of(app, shards=2)
    rejecting(orders)
    rejecting(orders, "mail")
    ids = [await orders.publish(Order(name)) for name in "abc"]
    async with app.worker():
        await until(app, BILLING, dead=3)
        await until(app, "mail@orders", dead=3)
    assert await app.admin.replay(queue=BILLING) == 3
    assert await app.admin.dead(BILLING) == []
    assert len(await app.admin.dead("mail@orders")) == 3
    assert await app.admin.purge(ids[0], "mail@orders") == 1
    assert await app.admin.purge(ids[0], BILLING) == 0
    assert {info.id for info in await app.admin.dead()} == {*ids[1:]}


async def test_an_event_named_without_a_group_is_replayed_wherever_it_is_dead(
    app: Headrace,
) -> None:
    orders = orders_of(app)
    rejecting(orders)
    rejecting(orders, "mail")
    id = await orders.publish(Order("a"))
    async with app.worker():
        await until(app, BILLING, dead=1)
        await until(app, "mail@orders", dead=1)
    assert await app.admin.replay([id]) == 1
    assert await app.admin.dead() == []
    assert (await app.admin.queue(BILLING)).waiting == 1
    assert (await app.admin.queue("mail@orders")).waiting == 1


@pytest.mark.parametrize("by_id", [False, True])
async def test_dead_events_of_an_ordered_group_are_replayed_the_oldest_first(
    app: Headrace, by_id: bool
) -> None:
    orders, good = orders_of(app), asyncio.Event()
    seen: list[int] = []

    @orders.subscribe("billing", ordered=True, on_failure="skip", retry=Retry(1))
    async def bill(order: Order) -> None:
        if not good.is_set():
            raise Reject("not yet")
        seen.append(order.cents)

    # More than a page of dead ones.
    ids = [await orders.publish(Order("a", cents)) for cents in range(120)]
    async with app.worker():
        await until(app, BILLING, dead=120)
        good.set()
        count = await app.admin.replay(ids[::-1] if by_id else None, BILLING)
        assert count == 120
        await until(app, BILLING, dead=0, waiting=0, running=0, blocked=0)
    assert seen == list(range(120))


async def test_dead_events_cannot_be_edited(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders)
    id = await orders.publish(Order("a"))
    await worked(app, dead=1)
    with pytest.raises(ConfigError, match="publish another"):
        await app.admin.replay(id, edit={"cents": 5})
    assert len(await app.admin.dead(BILLING)) == 1


async def test_events_that_a_group_has_to_handle_are_listed_page_by_page(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    rejecting(orders)
    ids = {await orders.publish(Order(f"o-{n}", n)) for n in range(10)}
    found: set[str] = set()
    cursor, more = "", True
    while more:
        page = await app.admin.jobs(BILLING, cursor=cursor, limit=2)
        found |= {job.id for job in page.jobs}
        assert {job.task for job in page.jobs} <= {"@orders"}
        cursor, more = page.cursor, bool(page.cursor)
    assert found == ids
    (one,) = (await app.admin.jobs(BILLING, search="o-7")).jobs
    assert (one.key, one.state) == ("o-7", State.WAITING)
    with pytest.raises(ConfigError, match="not a cursor"):
        await app.admin.jobs(BILLING, cursor="waiting#7/")


async def test_all_that_is_known_of_an_event_in_a_group(app: Headrace) -> None:
    orders = orders_of(app, source="shop")
    rejecting(orders)
    id = await orders.publish(Order("a"), headers={"who": "ann"})
    waiting = await app.admin.job(id)
    assert (waiting.state, waiting.queue, waiting.key) == (State.WAITING, BILLING, "a")
    assert waiting.arguments == {"id": "a", "cents": 0}
    assert waiting.event is not None
    assert (waiting.event.source, waiting.event.headers) == ("shop", {"who": "ann"})
    await worked(app, dead=1)
    dead = await app.admin.job(id, BILLING)
    assert (dead.state, dead.reason, len(dead.attempts)) == (State.DEAD, "rejected", 1)


async def test_a_paused_group_stands_still_in_all_shards(app: Headrace) -> None:
    orders = orders_of(app, shards=2)
    rejecting(orders)
    rejecting(orders, "mail")
    await app.admin.pause(BILLING)
    await orders.publish_many([Order(f"o-{n}", 1) for n in range(8)])
    async with app.worker():
        await until(app, "mail@orders", waiting=0, running=0)
        assert (await app.admin.queue(BILLING)).waiting == 8
        billing, mail = (await app.admin.topic("orders")).groups
        assert (billing.paused, mail.paused) == (True, False)
        await app.admin.resume(BILLING)
        await until(app, BILLING, waiting=0, running=0)
    assert not (await app.admin.queue(BILLING)).paused


async def test_what_is_no_group_cannot_be_paused(app: Headrace) -> None:
    rejecting(orders_of(app))
    with pytest.raises(GroupNotFound, match="no group 'biling'"):
        await app.admin.pause("biling@orders")
    with pytest.raises(GroupNotFound):
        await app.admin.pause("billing@orders#7")
    with pytest.raises(TopicNotFound):
        await app.admin.pause("billing@order")
    with pytest.raises(ConfigError, match="name a group"):
        await app.admin.pause("@orders")
    with pytest.raises(ConfigError, match="no tasks"):
        await app.admin.pause(BILLING, "bill")


async def test_events_that_wait_for_a_retry_are_cancelled_in_their_group(app: Headrace) -> None:
    orders = orders_of(app, shards=2)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        raise RetryLater(3600)

    ids = [await orders.publish(Order(name)) for name in "abc"]
    await worked(app, scheduled=3)
    assert (await app.admin.cancel(ids[0])).cancelled == 1
    assert (await app.admin.cancel(queue=BILLING)).cancelled == 2
    assert (await app.admin.queue(BILLING)).scheduled == 0


async def test_without_a_queue_events_are_cancelled_too_as_far_as_they_are_listed(
    app: Headrace,
) -> None:
    orders = orders_of(app)

    @app.task
    async def send(text: str) -> None: ...

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        raise RetryLater(3600)

    await orders.publish(Order("needle"))
    await worked(app, scheduled=1)
    await send.enqueue("a needle")
    logged = await orders.publish(Order("needle"))
    await orders.publish(Order("hay"))
    assert len((await app.admin.jobs(search="needle")).jobs) == 3
    report = await app.admin.cancel(search="needle")
    assert (report.cancelled, report.ended, report.logged) == (2, (), (logged,))
    assert [job.id for job in (await app.admin.jobs(search="needle")).jobs] == [logged]
    assert (await app.admin.queue(BILLING)).waiting == 2


async def test_an_event_in_the_log_cannot_be_cancelled_and_that_is_said(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders)
    id = await orders.publish(Order("a"))
    with pytest.raises(ConfigError, match="still in its topic's log"):
        await app.admin.cancel(id)
    with pytest.raises(JobNotFound):
        await app.admin.cancel("never")


async def test_what_happened_in_a_group_is_reported_for_all_shards(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    rejecting(orders)
    good = [await orders.publish(Order(name, 1)) for name in "abcdef"]
    await worked(app, waiting=0, running=0)
    events = [event async for event in app.admin.events(BILLING)]
    assert sorted(event.id for event in events if event.kind == "done") == sorted(good)
    assert {event.queue for event in events} == {BILLING, f"{BILLING}#2"}
    for at, event in enumerate(events):
        if event.kind == "done":
            rest = [event async for event in app.admin.events(BILLING, event.cursor)]
            assert rest == events[at + 1 :]
    with pytest.raises(ConfigError, match="not a cursor"):
        _ = [event async for event in app.admin.events(BILLING, "1-0")]
    stats = await app.admin.stats(5, BILLING)
    assert sum(each.counts.get("done", 0) for each in stats) == 6
    assert sum(each.counts.get("done", 0) for each in await app.admin.stats(5)) == 6


async def test_what_happens_in_a_group_is_followed_in_all_shards(app: Headrace) -> None:
    orders = orders_of(app, shards=2)
    rejecting(orders)
    names = list("abcd")
    assert {shard_of(name, 2) for name in names} == {0, 1}
    await orders.publish(Order(names[0], 1))
    done: set[str] = set()
    async with app.worker(), asyncio.timeout(20):
        ids = {await orders.publish(Order(name, 1)) for name in names}
        async for event in app.admin.events(BILLING, follow=True):
            done |= {event.id} if event.kind == "done" else set()
            if ids <= done:
                break


# Why


async def test_why_an_event_waits_in_the_log(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders)
    await orders.publish(Order("a"))
    id = await orders.publish(Order("b"))
    begin = "In group 'billing' of topic 'orders' it is waiting"
    assert await app.admin.why(id) == f"{begin}: no worker is running that reads the group."
    await app.admin.pause(BILLING)
    assert await app.admin.why(id) == f"{begin}: the group is paused."
    async with app.worker():
        await app.admin.why(id)
        await app.admin.resume(BILLING)
        await until(app, BILLING, dead=2)


async def test_why_an_event_waits_behind_others(app: Headrace) -> None:
    orders, started = orders_of(app), asyncio.Event()

    @orders.subscribe("billing", max_in_flight=1)
    async def bill(order: Order) -> None:
        started.set()
        await asyncio.Event().wait()

    first = await orders.publish(Order("a"))
    async with app.worker(drain=0):
        await started.wait()
        await orders.publish(Order("b"))
        last = await orders.publish(Order("c"))
        begin = "In group 'billing' of topic 'orders' it is"
        assert await app.admin.why(last) == f"{begin} waiting in the group, behind 1 event."
        (worker,) = await app.admin.workers()
        assert (await app.admin.why(first)).startswith(f"{begin} running on worker {worker.name!r}")


async def test_why_an_event_is_to_be_handled_again(app: Headrace) -> None:
    orders = orders_of(app)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        raise RetryLater(3600)

    id = await orders.publish(Order("a"))
    await worked(app, scheduled=1)
    why = await app.admin.why(id)
    assert why.startswith("In group 'billing' of topic 'orders' it is scheduled, due in ")
    assert "to run again after" in why


async def test_why_an_event_is_behind_its_key(app: Headrace) -> None:
    orders, started, go = orders_of(app), asyncio.Event(), asyncio.Event()

    @orders.subscribe("billing", ordered=True, retry=Retry(1))
    async def bill(order: Order) -> None:
        started.set()
        await go.wait()
        raise Reject("no")

    first = await orders.publish(Order("a"))
    later = await orders.publish(Order("a"))
    begin = "In group 'billing' of topic 'orders' it is"
    async with app.worker():
        await started.wait()
        await until(app, BILLING, blocked=1)
        assert await app.admin.why(later) == (
            f"{begin} blocked: events of its key 'a' are handled one after the other, and others "
            "are before it."
        )
        go.set()
        await until(app, BILLING, dead=1, blocked=1)
        assert await app.admin.why(later) == (
            f"{begin} blocked: its key 'a' is stopped, because event {first} went dead, until that "
            "one is replayed or purged, or the key is freed."
        )
        why = await app.admin.why(first)
        assert why.startswith(f"{begin} dead (rejected) since ")
        assert why.endswith(
            "Its key 'a' is stopped: later events of it wait until it is replayed or purged, or "
            "the key is freed."
        )


async def test_why_an_event_is_dead_that_no_subscriber_can_read(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders)
    envelope = orders.prepare(Order("a", 1)).parcel
    broken = envelope.envelope.replace(b"cents", b"cants").replace(b"\xa2id", b"\xa2ie")
    await orders.create_groups(await app.session())
    await app.store.publish("@orders", [Parcel(envelope.job_id, broken)])
    await worked(app, dead=1)
    (dead,) = await app.admin.dead(BILLING)
    assert dead.reason == Reason.BAD_EVENT
    assert dead.arguments == {"ie": "a", "cants": 1}
    assert "dead (bad_event) since" in await app.admin.why(dead.id)
    assert "never started" in await app.admin.why(dead.id)


async def test_why_says_it_for_each_group(app: Headrace) -> None:
    orders = orders_of(app)
    rejecting(orders)
    rejecting(orders, "mail")
    id = await orders.publish(Order("a"))
    async with app.worker(queues=[BILLING]):
        await until(app, BILLING, dead=1)
    why = await app.admin.why(id)
    assert "In group 'billing' of topic 'orders' it is dead" in why
    assert "In group 'mail' of topic 'orders' it is waiting" in why
    assert "mail" not in await app.admin.why(id, BILLING)


async def test_why_an_event_is_in_no_group(app: Headrace) -> None:
    orders = orders_of(app)
    lonely = app.topic("news", str)
    rejecting(orders)
    settled = await orders.publish(Order("a", 1))
    later = await orders.publish(Order("b", 1), delay=3600)
    unread = await lonely.publish("hello")
    await worked(app, waiting=0, running=0)
    assert await app.admin.why(settled) == (
        "It is in topic 'orders', and nothing is left to do: each of its groups ('billing') is "
        "done with it, or began after it."
    )
    assert await app.admin.why(unread) == "It is in topic 'news', which has no groups (yet)."
    why = await app.admin.why(later)
    assert why.startswith("It is scheduled, due in ")
    assert why.endswith("; then it is added to topic 'orders'.")
    with pytest.raises(JobNotFound):
        await app.admin.why("never")
