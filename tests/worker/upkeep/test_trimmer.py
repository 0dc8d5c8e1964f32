"""Logs are trimmed to their retention by whichever worker declares the topic."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from headrace import Headrace
from headrace.store.sqlite.store import SqliteStore
from headrace.store.topics import Group, Position, Trimmed
from headrace.testing import ManualClock
from headrace.worker.upkeep.trimmer import Trimmer
from tests.worker.states import until
from tests.worker.topics import Order


async def test_what_all_groups_have_settled_is_removed_after_its_retention(app: Headrace) -> None:
    orders = app.topic("orders", Order, retention=timedelta(seconds=0))
    seen: list[str] = []

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen.append(order.id)

    async with app.worker():
        await orders.publish_many(Order(f"o-{number}") for number in range(20))
        await until(lambda: len(seen) == 20)
        trimmer = Trimmer(app.store, app.topics.values())
        while (await app.store.lengths(["@orders"]))["@orders"]:
            await trimmer.poll("@orders")


async def test_it_looks_again_at_once_while_there_is_more() -> None:
    app = Headrace("memory://")
    orders = app.topic("orders", Order, shards=2)
    asked: list[str] = []

    class Trims:
        async def trim(self, log: str, *, retention_ms: int, gone_after_ms: int) -> Trimmed:
            assert (retention_ms, gone_after_ms) == (86_400_000, 7 * 86_400_000)
            asked.append(log)
            return Trimmed(100, more=len(asked) < 3)

    trimmer = Trimmer(Trims(), [orders], monotonic=lambda: 0.0)  # type: ignore[arg-type]
    assert await trimmer.step() == 0.0
    assert await trimmer.step() == 5.0
    assert asked == ["@orders", "@orders#1", "@orders", "@orders#1"]


async def test_a_group_that_is_gone_is_named_once(
    store: SqliteStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace("memory://")
    orders = app.topic("orders", Order)
    await store.join("billing@orders", Group(), Position("new"))
    trimmer = Trimmer(store, [orders])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.advance(8 * 86_400)
            await trimmer.poll("@orders")
    (record,) = [record for record in caplog.records if "billing" in record.getMessage()]
    assert "for 7 days: " in record.getMessage()


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (60, "60 seconds"),
        (timedelta(minutes=90), "90 minutes"),
        (timedelta(days=1), "24 hours"),
        (timedelta(days=2.5), "2.5 days"),
    ],
)
async def test_how_long_a_group_was_gone_is_said_in_a_unit_that_fits(
    store: SqliteStore, clock: ManualClock, caplog: pytest.LogCaptureFixture, after: Any, said: str
) -> None:
    orders = Headrace("memory://").topic("orders", Order, group_gone_after=after)
    await store.join("billing@orders", Group(), Position("new"))
    clock.advance(3 * 86_400)
    await Trimmer(store, [orders]).poll("@orders")
    assert f"for {said}: " in caplog.text


async def test_a_group_that_is_served_is_not_gone_after_the_least_time(
    store: SqliteStore, clock: ManualClock
) -> None:
    orders = Headrace("memory://").topic("orders", Order, retention=0, group_gone_after=60)
    await store.join("billing@orders", Group(), Position("new"))
    consumer = store.consumer("worker", ["billing@orders"], 30)
    await store.pause("billing@orders")
    await store.publish("@orders", [orders.prepare(Order("o-1")).parcel])
    for _ in range(20):
        # As often as a worker looks that has nothing to do.
        clock.advance(5)
        assert await consumer.fetch(1, 0.0) == []
        assert await store.trim("@orders", retention_ms=0, gone_after_ms=60_000) == Trimmed()
    await consumer.close()
    assert (await store.lengths(["@orders"]))["@orders"] == 1


async def test_what_a_broadcast_may_be_about_to_read_stays_for_a_minute(
    store: SqliteStore, clock: ManualClock
) -> None:
    orders = Headrace("memory://").topic("orders", Order, retention=0)

    @orders.broadcast
    async def tell(order: Order) -> None: ...

    await store.publish("@orders", [orders.prepare(Order("o-1")).parcel])
    trimmer = Trimmer(store, [orders])
    clock.advance(59)
    await trimmer.poll("@orders")
    assert (await store.lengths(["@orders"]))["@orders"] == 1
    clock.advance(2)
    await trimmer.poll("@orders")
    assert (await store.lengths(["@orders"]))["@orders"] == 0
