"""Dead events of a group are given to the function that its topic declares for them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from headrace import DeadEvent, Headrace, Reject, Retry
from headrace.client.topic.topic import Topic
from headrace.store.contract import DeadJob
from headrace.worker.upkeep.dead_cursor import DeadCursor
from headrace.worker.upkeep.dead_handlers import DeadHandlerCaller
from tests.worker.states import until
from tests.worker.topics import Order, orders_of


def rejecting(app: Headrace) -> Topic[Order]:
    """A topic whose group gives up every event."""
    orders = orders_of(app)

    @orders.subscribe("billing", retry=Retry(1))
    async def bill(order: Order) -> None:
        raise Reject("not one of ours")

    return orders


def caller_of(app: Headrace, worker: str = "worker", lease: float = 30.0) -> DeadHandlerCaller:
    subscription = app.topics["orders"].subscriptions["billing"]
    assert subscription.dead_handler is not None
    return DeadHandlerCaller(app.store, subscription, subscription.dead_handler, worker, lease)


async def dead_of(app: Headrace, count: int) -> None:
    """When so many events are dead."""
    while (await app.store.count("billing@orders")).dead < count:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_each_dead_event_is_given_once_and_stays_in_the_dead_list(app: Headrace) -> None:
    orders = rejecting(app)
    seen: list[tuple[str, str, str]] = []

    @orders.on_dead("billing")
    async def on_death(order: Order, dead: DeadEvent) -> None:
        seen.append((order.id, dead.reason, dead.error))

    async with app.worker():
        await orders.publish_many(Order(f"o-{number}") for number in range(60))
        await until(lambda: len(seen) >= 60)
    async with app.worker():
        await orders.publish(Order("last"))
        await until(lambda: len(seen) >= 61)
    expected = [f"o-{number}" for number in range(60)] + ["last"]
    assert sorted(id for id, *_ in seen) == sorted(expected)
    assert seen[0][1:] == ("rejected", "not one of ours")
    assert (await app.store.count("billing@orders")).dead == 61


async def test_those_that_died_before_are_given_too_the_oldest_first(app: Headrace) -> None:
    orders = rejecting(app)
    async with app.worker():
        for number in range(5):
            await orders.publish(Order(f"o-{number}"))
            await dead_of(app, number + 1)
    seen: list[str] = []

    @orders.on_dead("billing")
    def on_death(order: Order) -> None:
        seen.append(order.id)

    async with app.worker():
        await until(lambda: len(seen) == 5)
    assert seen == [f"o-{number}" for number in range(5)]


async def killed(app: Headrace, *names: str) -> None:
    """When events of these names are dead, too."""
    before = (await app.store.count("billing@orders")).dead
    async with app.worker():
        await app.topics["orders"].publish_many(map(Order, names))
        await dead_of(app, before + len(names))


async def test_none_is_missed_if_others_die_while_the_first_is_handled(
    app: Headrace,
) -> None:
    orders = rejecting(app)
    old, new = [f"old-{n}" for n in range(60)], [f"new-{n}" for n in range(30)]
    await killed(app, *old)
    seen: list[str] = []

    @orders.on_dead("billing")
    async def on_death(order: Order) -> None:
        seen.append(order.id)
        if len(seen) == 1:
            await killed(app, *new)

    await caller_of(app).poll("billing@orders")
    assert sorted(seen) == sorted(old + new)


async def test_many_that_died_at_once_are_not_kept_count_of_one_by_one(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.upkeep.dead_cursor._NAMED", 7)
    orders = rejecting(app)
    names = [f"o-{n}" for n in range(80)]
    await killed(app, *names)
    seen: list[str] = []

    @orders.on_dead("billing")
    async def on_death(order: Order) -> None:
        seen.append(order.id)
        if len(seen) == 40:
            first.stop()

    first = caller_of(app, "one")
    await first.poll("billing@orders")
    assert len(seen) == 40
    await caller_of(app, "two").poll("billing@orders")
    await caller_of(app, "three").poll("billing@orders")
    assert sorted(seen) == sorted(names)
    (cursor,) = (await app.store.kv_all("on_dead")).values()
    assert len(cursor) < 7 * 20 + 60


def test_a_book_knows_by_their_place_those_that_are_too_many() -> None:
    jobs = [DeadJob(bytes([n]) * 16, 1000, "rejected", b"", b"") for n in range(150)]
    cursor = DeadCursor()
    for job in jobs[:120]:
        assert cursor.unhandled([*reversed(jobs)])[0][-1] is job
        cursor = cursor.handled(job)
    assert len(cursor.then) == 100
    later = DeadJob(b"later" * 3, 1001, "rejected", b"", b"")
    assert cursor.unhandled([later, *reversed(jobs)]) == ([later, *reversed(jobs[120:])], True)
    assert cursor.handled(later).unhandled([later, *reversed(jobs)]) == ([], True)


async def test_a_function_that_fails_is_tried_three_times_and_passed_over(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.worker.upkeep.dead_handlers._FIRST_PAUSE", 0.001)
    orders = rejecting(app)
    seen: list[str] = []
    handled: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        handled.append(f"{scope}: {error}")

    @orders.on_dead("billing")
    async def on_death(order: Order) -> None:
        seen.append(order.id)
        if order.id == "bad":
            raise ValueError("no")

    worker = app.worker()
    with caplog.at_level(logging.ERROR):
        async with worker:
            await orders.publish(Order("bad"))
            await dead_of(app, 1)
            await orders.publish(Order("good"))
            await until(lambda: "good" in seen)
    assert seen == ["bad", "bad", "bad", "good"]
    assert handled.count("on_dead: no") == 3
    assert worker.outcome is not None
    assert worker.outcome.unhandled_events == 1
    assert any("passed over" in record.getMessage() for record in caplog.records)


async def test_a_worker_that_dies_meanwhile_leaves_the_event_to_the_next(app: Headrace) -> None:
    orders = rejecting(app)
    async with app.worker():
        await orders.publish(Order("o-1"))
        await dead_of(app, 1)
    seen: list[str] = []
    dies = True

    @orders.on_dead("billing")
    async def on_death(order: Order) -> None:
        seen.append(order.id)
        if dies:
            await asyncio.sleep(600)

    dying = asyncio.create_task(caller_of(app, "one", lease=1.0).poll("billing@orders"))
    await until(lambda: seen)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    other = caller_of(app, "two")
    dies = False
    while len(seen) < 2:
        await other.poll("billing@orders")
        await asyncio.sleep(0.02)
    await other.poll("billing@orders")
    assert seen == ["o-1", "o-1"]


async def test_an_event_that_kills_every_worker_is_passed_over_in_the_end(app: Headrace) -> None:
    orders = rejecting(app)
    async with app.worker():
        await orders.publish(Order("killer"))
        await dead_of(app, 1)
    seen: list[str] = []

    @orders.on_dead("billing")
    async def on_death(order: Order) -> None:
        seen.append(order.id)
        await asyncio.sleep(600)

    tries: list[str] = []
    for name in ("one", "two", "three"):
        tries.append(name)
        dying = asyncio.create_task(caller_of(app, name, lease=1.0).poll("billing@orders"))
        await until(lambda: len(seen) == len(tries))
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
    last = caller_of(app, "four")
    await last.poll("billing@orders")
    assert (seen, last.failed) == (["killer"] * 3, 1)


async def test_one_worker_at_a_time_handles_the_dead(app: Headrace) -> None:
    orders = rejecting(app)
    async with app.worker():
        await orders.publish(Order("o-1"))
        await dead_of(app, 1)
    seen: list[str] = []
    go_on = asyncio.Event()

    @orders.on_dead("billing")
    async def on_death(order: Order) -> None:
        seen.append(order.id)
        await go_on.wait()

    first = asyncio.create_task(caller_of(app, "one").poll("billing@orders"))
    await until(lambda: seen)
    await caller_of(app, "two").poll("billing@orders")
    assert seen == ["o-1"]
    go_on.set()
    await first
    await caller_of(app, "two").poll("billing@orders")
    assert seen == ["o-1"]


async def test_what_cannot_be_decoded_goes_only_to_who_takes_the_dead_event(
    app: Headrace,
) -> None:
    orders = rejecting(app)
    await orders.create_groups(await app.session())
    sender = Headrace(app.url, namespace=app.namespace)
    sender._store = app.store
    await sender.topic("orders", bytes).publish(b"\xff not an order")
    seen: list[bytes] = []

    @orders.on_dead("billing")
    async def on_death(dead: DeadEvent) -> None:
        seen.append(dead.event.raw)
        assert dead.reason == "bad_event"

    async with app.worker():
        await until(lambda: seen)
    assert len(seen) == 1
