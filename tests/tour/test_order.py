"""Order: events of one key are handled one after the other, through failures, on every store."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from headrace import ConfigError, Headrace, Reason, Reject, Retry, Topic
from headrace.admin import StoppedKeyInfo
from headrace.core.job.envelope import decode_envelope
from headrace.core.queue_names import shard_of
from tests.tour.heard import Heard, Paid

SOON = Retry(3, base=0.01, jitter=False)


@pytest.mark.parametrize("shards", [1, 3])
async def test_events_of_one_key_come_in_order_and_one_at_a_time(
    app: Headrace, heard: Heard, shards: int
) -> None:
    orders = app.topic("orders", Paid, key=lambda event: event.order, shards=shards)
    order: defaultdict[str, list[int]] = defaultdict(list)
    running: Counter[str] = Counter()
    most = 0

    @orders.subscribe("ledger", ordered=True, on_failure="skip", retry=SOON)
    async def ledger(event: Paid) -> None:
        nonlocal most
        running[event.order] += 1
        most = max(most, running[event.order])
        await asyncio.sleep(0.001)
        running[event.order] -= 1
        if event.cents == 7 and heard[event.order].count(7) < 1:
            heard.add(event.order, 7)
            raise ConnectionError("try again")
        order[event.order].append(event.cents)
        heard.add("all", event)

    events = [Paid(key, number) for number in range(15) for key in "abcdef"]
    assert (await orders.publish_many(events)).ok
    async with app.worker(), app.worker():
        await heard.until(all=90)
    assert dict(order) == {key: list(range(15)) for key in "abcdef"}
    assert most == 1


async def test_a_key_goes_to_one_shard_for_ever(app: Headrace) -> None:
    orders = app.topic("orders", Paid, key=lambda event: event.order, shards=4)
    await orders.publish_many([Paid(f"o-{number % 20}", number) for number in range(60)])
    for shard, log in enumerate(orders.logs):
        for logged in await app.store.read(log):
            assert shard == shard_of(orders.decode(decode_envelope(logged.envelope)).order, 4)
    # Written down, so that it stays: see docs/order.md.
    assert [shard_of(key, 4) for key in ("o-1", "o-2", "ada")] == [2, 0, 0]


async def test_a_dead_event_blocks_its_key_until_someone_acts(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    mended = False

    @orders.subscribe("ledger", ordered=True, on_failure="block")
    async def ledger(event: Paid) -> None:
        if event == Paid("a", 1) and not mended:
            raise Reject("no such account")
        heard.add(event.order, event.cents)

    async with app.worker():
        for number in range(3):
            await orders.publish_many([Paid("a", number), Paid("b", number)])
        await heard.until(a=1, b=3)
        (stopped,) = await _stopped(app)
        assert (stopped.key, stopped.state) == ("a", "blocked")
        assert heard["a"] == [0]
        mended = True
        await app.admin.replay(queue="ledger@orders")
        await heard.until(a=3)
    assert (heard["a"], heard["b"]) == ([0, 1, 2], [0, 1, 2])
    assert await app.admin.stopped_keys("orders", "ledger") == []


async def test_a_blocked_key_can_be_let_go_without_its_event(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("ledger", ordered=True, on_failure="block")
    async def ledger(event: Paid) -> None:
        if event.cents == 1:
            raise Reject("no such account")
        heard.add(event.order, event.cents)

    async with app.worker():
        await orders.publish_many([Paid("a", number) for number in range(4)])
        await _stopped(app)
        assert await app.admin.free_key("orders", "ledger", "a")
        await heard.until(a=3)
    assert heard["a"] == [0, 2, 3]
    assert [dead.reason for dead in await app.admin.dead("ledger@orders")] == [Reason.REJECTED]


async def test_a_failed_key_takes_all_later_events_along(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("ledger", ordered=True, on_failure="fail_key")
    async def ledger(event: Paid) -> None:
        if event == Paid("a", 1):
            raise Reject("no such account")
        heard.add(event.order, event.cents)

    async with app.worker():
        await orders.publish_many([Paid(key, number) for number in range(3) for key in "ab"])
        await heard.until(b=3)
        await _stopped(app)
    # Whoever comes next finds the key failed: it is kept in the store.
    async with app.worker():
        await orders.publish(Paid("a", 3))
        await _dead(app, 3)
        assert await app.admin.free_key("orders", "ledger", "a")
        await orders.publish(Paid("a", 4))
        await heard.until(a=2)
    assert (heard["a"], heard["b"]) == ([0, 4], [0, 1, 2])
    reasons = Counter(dead.reason for dead in await app.admin.dead("ledger@orders"))
    assert reasons == {Reason.REJECTED: 1, Reason.KEY_FAILED: 2}


async def test_order_needs_a_key(app: Headrace) -> None:
    plain = app.topic("plain", Paid)
    with pytest.raises(ConfigError, match="key"):

        @plain.subscribe("ledger", ordered=True)
        async def ledger(event: Paid) -> None: ...


async def _stopped(app: Headrace) -> list[StoppedKeyInfo]:
    async with asyncio.timeout(30):
        while not (found := await app.admin.stopped_keys("orders", "ledger")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def _dead(app: Headrace, count: int) -> None:
    async with asyncio.timeout(30):
        while len(await app.admin.dead("ledger@orders")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
