"""Shards that a topic had before are not forgotten in silence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace import Headrace, Topic
from tests.worker.states import until
from tests.worker.topics import Order, orders_of


@pytest.fixture(params=["sqlite", "redis"])
async def spread(
    request: pytest.FixtureRequest, namespace: str, tmp_path: object
) -> AsyncIterator[Headrace]:
    """An app whose store others can open too, and whose topic has four shards."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
    async with Headrace(url, namespace=namespace, lease=0.6) as app:
        yield app


def handled(app: Headrace, shards: int) -> tuple[Topic[Order], list[str]]:
    orders = orders_of(app, shards)
    seen: list[str] = []

    @orders.subscribe("billing", begin="start")
    async def bill(order: Order) -> None:
        seen.append(order.id)

    return orders, seen


async def said_at_start(app: Headrace, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings of a worker that starts and stops."""
    caplog.clear()
    async with app.worker():
        of_worker = (each for each in caplog.records if each.name == "headrace.worker")
        return [record.message for record in of_worker if record.levelname == "WARNING"]


async def test_events_in_shards_that_are_no_longer_declared_are_reported(
    spread: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    before, _ = handled(spread, 4)
    await before.publish_many(Order(f"o-{number}") for number in range(40))
    after = Headrace(spread.url, namespace=spread.namespace, lease=0.6)
    handled(after, 2)
    after.topic("news", str)
    (warning,) = await said_at_start(after, caplog)
    assert "topic 'orders' is declared with shards=2" in warning
    assert "run a worker with shards=4" in warning


async def test_nothing_is_said_of_shards_that_are_empty(
    spread: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    before, seen = handled(spread, 2)
    await before.publish_many(Order(f"o-{number}") for number in range(20))
    assert await said_at_start(spread, caplog) == []
    async with spread.worker():
        await until(lambda: len(seen) == 20)
    while (await spread.store.lengths(["@orders#1"]))["@orders#1"]:
        await spread.store.trim("@orders#1", retention_ms=0, gone_after_ms=60_000)
    after = Headrace(spread.url, namespace=spread.namespace, lease=0.6)
    handled(after, 1)
    assert await said_at_start(after, caplog) == []
