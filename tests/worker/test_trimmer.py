"""Logs are trimmed to their retention by whichever worker declares the topic."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from headrace import Headrace
from headrace.store.sqlite.store import SqliteStore
from headrace.store.topics import Group, Position, Trimmed
from headrace.testing import ManualClock
from headrace.worker.trimmer import Trimmer
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
        while await app.store.length("@orders"):
            await trimmer.look("@orders")


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
            await trimmer.look("@orders")
    (record,) = [record for record in caplog.records if "billing" in record.getMessage()]
    assert "for 7 days" in record.getMessage()
