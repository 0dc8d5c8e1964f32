"""A delivery that comes too late is told why; what could not be settled is not called settled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace import AuditError, AuditRecord, Delivery, DeliveryUsed, Headrace, LeaseLost, Retry
from headrace.worker.run import stopper
from tests.worker.states import until
from tests.worker.topics import Order, group_of, orders_of


@pytest.fixture
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that ignores its timeout is waited for a moment only."""
    monkeypatch.setattr(stopper, "_CANCEL_GRACE", 0.1)


def keeping(app: Headrace, timeout: float = 60.0) -> list[Delivery]:
    """The deliveries of a group whose function settles nothing itself."""
    kept: list[Delivery] = []

    @app.topics["orders"].subscribe("billing", ack="manual", timeout=timeout, retry=Retry(1))
    async def bill(order: Order, delivery: Delivery) -> None:
        kept.append(delivery)

    return kept


async def dead(app: Headrace) -> None:
    while not (await group_of(app, "billing")).counts.dead:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_after_the_timeout_it_says_so(app: Headrace) -> None:
    orders = orders_of(app)
    kept = keeping(app, timeout=0.1)
    async with app.worker():
        await orders.publish(Order("o-1"))
        await dead(app)
        with pytest.raises(DeliveryUsed, match=r"not settled within its timeout of 0\.1 s"):
            await kept[0].ack()


async def test_after_its_worker_stopped_it_says_so(app: Headrace) -> None:
    orders = orders_of(app)
    kept = keeping(app)
    async with app.worker(drain=0.1):
        await orders.publish(Order("o-1"))
        await until(lambda: kept)
    with pytest.raises(DeliveryUsed, match="its worker stopped, which handed it back"):
        await kept[0].ack()
    assert (await group_of(app, "billing")).counts.waiting == 1


async def test_after_the_lease_was_lost_it_says_so(app: Headrace) -> None:
    orders = orders_of(app)
    kept = keeping(app)
    worker = app.worker()
    async with worker:
        await orders.publish(Order("o-1"))
        await until(lambda: kept)
        assert worker.runtime is not None
        (loop,) = worker.runtime.loops
        held = [run.delivery for run in loop._executor.in_flight.running]
        loop.lose(held)
        await until(lambda: kept[0].used)
        with pytest.raises(LeaseLost, match="went to another worker before it was settled"):
            await kept[0].ack()


async def test_after_it_was_cancelled_it_says_so(app: Headrace) -> None:
    orders = orders_of(app)
    kept = keeping(app)
    async with app.worker():
        event = await orders.publish(Order("o-1"))
        await until(lambda: kept)
        await app.admin.cancel(event, queue="billing@orders")
        await until(lambda: kept[0].used)
        with pytest.raises(DeliveryUsed, match="was cancelled before it was settled"):
            await kept[0].reject("no")


async def test_after_its_function_failed_it_says_so(app: Headrace) -> None:
    orders = orders_of(app)
    kept: list[Delivery] = []

    @orders.subscribe("billing", ack="manual", retry=Retry(1))
    async def bill(order: Order, delivery: Delivery) -> None:
        kept.append(delivery)
        raise ValueError("no")

    async with app.worker():
        await orders.publish(Order("o-1"))
        await dead(app)
        with pytest.raises(DeliveryUsed, match="its function failed with ValueError"):
            await kept[0].ack()


@pytest.mark.usefixtures("soon_given_up")
async def test_a_thread_that_says_something_after_the_timeout_is_logged_and_its_place_is_free(
    app: Headrace,
) -> None:
    orders = orders_of(app)
    go_on = threading.Event()
    told: list[str] = []
    seen: list[str] = []

    @orders.subscribe("billing", ack="manual", timeout=0.1, retry=Retry(1), max_in_flight=1)
    def bill(order: Order, delivery: Delivery) -> None:
        seen.append(order.id)
        if order.id == "slow":
            go_on.wait(20)
            try:
                delivery.ack_sync()
            except DeliveryUsed as error:
                told.append(str(error))
        else:
            delivery.ack_sync()

    async with app.worker():
        await orders.publish(Order("slow"))
        await dead(app)
        go_on.set()
        await orders.publish(Order("next"))
        async with asyncio.timeout(20):
            await until(lambda: len(seen) == 2)
    assert len(told) == 1
    assert "not settled within its timeout" in told[0]


@pytest.mark.usefixtures("soon_given_up")
async def test_a_thread_that_kept_its_delivery_for_too_long_leaves_its_place(
    app: Headrace,
) -> None:
    orders = orders_of(app)
    kept: list[Delivery] = []

    @orders.subscribe("billing", ack="manual", timeout=0.1, retry=Retry(1), max_in_flight=1)
    def bill(order: Order, delivery: Delivery) -> None:
        kept.append(delivery)

    async with app.worker():
        await orders.publish_many([Order("o-1"), Order("o-2")])
        async with asyncio.timeout(20):
            await until(lambda: len(kept) == 2)
        with pytest.raises(DeliveryUsed, match="not settled within its timeout"):
            await kept[0].ack()


async def test_an_event_that_could_not_be_recorded_is_not_said_to_be_settled(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []

    async def write(record: AuditRecord) -> None:
        if record.attempt < 3:
            raise OSError("full")

    app.audit(write, on_error="fail")
    orders = orders_of(app)

    @orders.subscribe("billing", ack="manual", retry=Retry(3, backoff=[0.01], jitter=False))
    async def bill(order: Order, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        try:
            await delivery.ack()
        except AuditError as error:
            if delivery.attempt == 1:
                raise
            raise ValueError("cannot go on") from error

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: len(attempts) == 3)
    assert "after it was settled" not in caplog.text
    assert "was not settled as its function said: this could not be recorded" in caplog.text
    assert "failed after it could not be settled" in caplog.text
