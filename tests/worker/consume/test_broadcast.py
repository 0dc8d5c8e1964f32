"""A broadcast reaches every process that runs, from when it runs, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from headrace import Headrace
from headrace.core.job.capacity import Capacity
from headrace.errors import StoreUnavailable
from headrace.store.topics import LoggedEvent
from headrace.worker.consume.tail import Tail
from tests.worker.states import AtOnce, until
from tests.worker.topics import Order, orders_of


async def test_every_worker_gets_each_event_from_its_start_on(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.broadcast
    async def drop_cache(order: Order) -> None:
        seen.append(order.id)

    await orders.publish(Order("before"))
    async with app.worker():
        await orders.publish(Order("one"))
        await until(lambda: len(seen) == 1)
        async with app.worker():
            await orders.publish(Order("both"))
            await until(lambda: len(seen) == 3)
    assert seen == ["one", "both", "both"]
    assert (await app.store.groups(["@orders"]))["@orders"] == []


async def test_broadcasts_of_all_shards_come_one_after_the_other(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    runs = AtOnce()
    seen: list[str] = []

    @orders.broadcast
    async def drop_cache(order: Order) -> None:
        with runs:
            await asyncio.sleep(0)
        seen.append(order.id)

    async with app.worker():
        await orders.publish_many(Order(f"o-{number}") for number in range(30))
        await until(lambda: len(seen) == 30)
    assert runs.most == 1
    assert sorted(seen) == sorted(f"o-{number}" for number in range(30))


async def test_a_broadcast_that_fails_is_counted_logged_and_observed(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    orders = orders_of(app)
    seen: list[str] = []
    errors: list[tuple[str, str]] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        errors.append((scope, str(error)))

    @orders.broadcast
    async def drop_cache(order: Order) -> None:
        seen.append(order.id)
        if order.id == "bad":
            raise ValueError("no cache")

    worker = app.worker()
    async with worker:
        await orders.publish_many([Order("bad"), Order("good")])
        await until(lambda: len(seen) == 2)
    assert worker.outcome is not None
    assert (worker.outcome.unhandled_events, seen) == (1, ["bad", "good"])
    assert errors == [("broadcast", "no cache")]
    (line,) = [text for text in caplog.messages if "the broadcast of event" in text]
    assert "ValueError: no cache" in line


async def test_an_outage_of_the_store_loses_no_broadcast(app: Headrace) -> None:
    orders = orders_of(app)
    tail = Tail(app.store, "worker", ["@orders"])
    await tail.take_place()
    await orders.publish_many([Order("o-1"), Order("o-2")])
    read, failures = app.store.read, [StoreUnavailable("away"), StoreUnavailable("away")]

    async def unsteady(*args: object, **kwargs: object) -> list[LoggedEvent]:
        if failures:
            raise failures.pop()
        return await read(*args, **kwargs)  # type: ignore[arg-type]

    app.store.read = unsteady  # type: ignore[method-assign]
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await tail.fetch(10, 1.0)
            await tail.take_place()
        first = await tail.fetch(1, 1.0)
        second = await tail.fetch(10, 1.0)
    finally:
        app.store.read = read  # type: ignore[method-assign]
        await tail.close()
    assert [len(first), len(second)] == [1, 1]
    assert len({delivery.receipt for delivery in (*first, *second)}) == 2


async def test_a_tail_that_waits_is_ended_at_once(app: Headrace) -> None:
    tail = Tail(app.store, "worker", ["@orders"])
    await tail.take_place()
    waiting = asyncio.create_task(tail.fetch(1, 600))
    await asyncio.sleep(0)
    await tail.interrupt()
    assert await waiting == []
    await tail.close()


async def test_a_tail_without_room_waits_and_keeps_its_events(app: Headrace) -> None:
    orders = app.topic("orders", Order)
    tail = Tail(app.store, "worker", ["@orders"])
    await tail.take_place()
    await orders.publish_many([Order("o-1"), Order("o-2")])
    assert len(await tail.fetch(1, 5.0)) == 1
    waiting = asyncio.create_task(tail.fetch(5, 600, Capacity(0, 5, 5)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waiting.cancel()
    assert len(await tail.fetch(5, 5.0, Capacity(5, 0, 0))) == 1
    await tail.close()
