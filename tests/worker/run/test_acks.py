"""When events are acknowledged: after success, on receipt, or by hand."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace import Delivery, DeliveryUsed, Headrace, Retry
from headrace.core.job.ids import to_id
from headrace.errors import StoreUnavailable
from headrace.store.contract import DeadJob
from tests.worker.states import AtOnce, until
from tests.worker.topics import Order, group_of, orders_of


async def settled(app: Headrace, group: str = "billing") -> None:
    """When the group has nothing left to do."""
    while True:
        counts = (await group_of(app, group)).counts
        if not (counts.waiting or counts.running or counts.scheduled):
            return
        await asyncio.sleep(0.005)


async def dead_ones(app: Headrace) -> list[DeadJob]:
    """The dead events of the group, once there are any."""
    while not (found := (await app.store.dead("billing@orders")).jobs):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    return found


# On receipt


async def test_on_receipt_the_event_is_settled_before_its_handler_runs(app: Headrace) -> None:
    orders = orders_of(app)
    left: list[int] = []

    @orders.subscribe("billing", ack="receive")
    async def bill(order: Order) -> None:
        counts = (await group_of(app, "billing")).counts
        left.append(counts.running + counts.waiting)

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: left)
    assert left == [0]


async def test_on_receipt_a_failure_is_counted_and_not_retried(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []
    told: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        told.append(f"{scope}: {error}")

    @orders.subscribe("billing", ack="receive")
    async def bill(order: Order) -> None:
        seen.append(order.id)
        raise ValueError("no")

    worker = app.worker()
    async with worker:
        await orders.publish_many([Order("o-1"), Order("o-2")])
        await until(lambda: len(seen) == 2)
    assert worker.outcome is not None
    assert (worker.outcome.unhandled_events, worker.outcome.exit_code) == (2, 0)
    assert told == ["handler: no"] * 2
    counts = (await group_of(app, "billing")).counts
    assert (counts.waiting, counts.scheduled, counts.dead) == (0, 0, 0)


async def test_on_receipt_no_more_are_in_flight_than_may_be(app: Headrace) -> None:
    orders = orders_of(app)
    runs = AtOnce()

    @orders.subscribe("billing", ack="receive", max_in_flight=2)
    async def bill(order: Order) -> None:
        with runs:
            await asyncio.sleep(0.001)

    async with app.worker():
        await orders.publish_many(Order(f"o-{number}") for number in range(20))
        await until(lambda: runs.ended == 20)
    assert runs.most <= 2


async def test_on_receipt_what_was_acknowledged_is_run_before_the_worker_ends(
    app: Headrace,
) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", ack="receive")
    async def bill(order: Order) -> None:
        await asyncio.sleep(0.01)
        seen.append(order.id)

    await orders.publish_many(Order(f"o-{number}") for number in range(50))
    async with app.worker():
        pass
    left = (await group_of(app, "billing")).counts.waiting
    assert len(seen) + left == 50


async def test_on_receipt_an_event_is_run_though_the_answer_to_its_acknowledgement_was_lost(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", ack="receive", max_in_flight=1)
    async def bill(order: Order) -> None:
        seen.append(order.id)

    worker = app.worker()
    async with worker:
        assert worker.runtime is not None
        (loop,) = worker.runtime.loops
        settle, tries = loop.consumer.settle, 0

        async def loses_its_answer(*given: Any, **named: Any) -> Any:
            nonlocal tries
            tries += 1
            answer = await settle(*given, **named)
            if tries == 1:
                raise StoreUnavailable("gone", sent=True)
            return answer

        monkeypatch.setattr(loop.consumer, "settle", loses_its_answer)
        await orders.publish(Order("first"))
        await orders.publish(Order("second"))
        await until(lambda: len(seen) == 2)
    assert seen == ["first", "second"]
    assert worker.outcome is not None
    assert (worker.outcome.unhandled_events, worker.outcome.lost_leases) == (0, 0)


async def test_on_receipt_what_cannot_be_decoded_goes_dead(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", ack="receive", max_in_flight=1)
    async def bill(order: Order) -> None:
        seen.append(order.id)

    sender = Headrace(app.url, namespace=app.namespace)
    sender._store = app.store
    await orders.create_groups(await app.session())
    await sender.topic("orders", bytes).publish(b"\xff not an order")
    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: seen)
    assert (await group_of(app, "billing")).counts.dead == 1


# By hand


async def test_an_event_is_settled_by_hand_while_its_handler_goes_on(app: Headrace) -> None:
    orders = orders_of(app)
    steps: list[str] = []
    go_on = asyncio.Event()

    @orders.subscribe("billing", ack="manual")
    async def bill(order: Order, delivery: Delivery) -> None:
        await delivery.ack()
        steps.append(f"settled {(await group_of(app, 'billing')).counts.running}")
        with pytest.raises(DeliveryUsed):
            await delivery.reject("no")
        await go_on.wait()
        steps.append("ended")

    worker = app.worker()
    async with worker:
        await orders.publish(Order("o-1"))
        await until(lambda: steps)
        worker.stop()
        go_on.set()
    assert steps == ["settled 0", "ended"]
    assert worker.outcome is not None
    assert not worker.outcome.timed_out


async def test_retry_reject_and_defer_by_hand(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[tuple[str, int]] = []

    @orders.subscribe("billing", ack="manual", retry=Retry(5, base=100))
    async def bill(order: Order, delivery: Delivery) -> None:
        seen.append((order.id, delivery.attempt))
        first = sum(id == order.id for id, _ in seen) == 1
        if order.id == "reject":
            await delivery.reject("not one of ours")
        elif order.id == "retry" and first:
            await delivery.retry(0.01)
        elif order.id == "defer" and first:
            await delivery.defer(0.01)
        else:
            await delivery.ack()

    async with app.worker():
        await orders.publish_many([Order("reject"), Order("retry"), Order("defer")])
        await until(lambda: len(seen) == 5)
        await settled(app)
    assert sorted(seen) == [
        ("defer", 1), ("defer", 1), ("reject", 1), ("retry", 1), ("retry", 2),
    ]  # fmt: skip
    page = await app.store.dead("billing@orders")
    assert [job.reason for job in page.jobs] == ["rejected"]


async def test_a_delivery_may_be_kept_and_used_after_its_handler(app: Headrace) -> None:
    orders = orders_of(app)
    kept: list[Delivery] = []
    seen: list[str] = []

    @orders.subscribe("billing", ack="manual")
    async def bill(order: Order, delivery: Delivery) -> None:
        seen.append(order.id)
        kept.append(delivery)

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: kept)
        # Longer than its lease, which is renewed all the while.
        await asyncio.sleep(2.5 * app.lease)
        assert (await group_of(app, "billing")).counts.running == 1
        await kept[0].ack()
        assert (await group_of(app, "billing")).counts.running == 0
    assert seen == ["o-1"]


async def test_a_delivery_that_is_dropped_comes_again_after_its_lease(app: Headrace) -> None:
    orders = orders_of(app)
    fences: list[int] = []

    @orders.subscribe("billing", ack="manual", max_in_flight=1)
    async def bill(order: Order, delivery: Delivery) -> None:
        if order.id == "dropped":
            fences.append(delivery.fence)
            if len(fences) == 1:
                return
        await delivery.ack()
        del delivery
        gc.collect()

    worker = app.worker()
    async with worker:
        await orders.publish_many([Order("dropped"), Order("other")])
        # The only slot is free again at once, so the other does not wait for the lease.
        await until(lambda: len(fences) == 2)
        await settled(app)
    assert fences == [1, 2]
    assert worker.outcome is not None
    assert worker.outcome.lost_leases == 0


async def test_an_event_that_is_always_dropped_goes_dead_in_the_end(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    orders = orders_of(app)
    seen: list[int] = []

    @orders.subscribe("billing", ack="manual")
    async def bill(order: Order, delivery: Delivery) -> None:
        seen.append(delivery.fence)

    async with app.worker():
        event = await orders.publish(Order("o-1"))
        (job,) = await dead_ones(app)
    assert (job.job_id, job.reason) == (to_id(event), "crash_loop")
    assert seen == [1, 2, 3]
    (dead,) = await app.admin.dead("billing@orders")
    for text in (dead.error_text, caplog.text):
        assert "died, lost their lease, or dropped" in text


async def test_a_handler_that_fails_before_it_settles_is_judged_as_usual(app: Headrace) -> None:
    orders = orders_of(app)
    attempts: list[int] = []

    @orders.subscribe("billing", ack="manual", retry=Retry(2, base=0.01))
    async def bill(order: Order, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise ValueError("no")

    async with app.worker():
        await orders.publish(Order("o-1"))
        (job,) = await dead_ones(app)
    assert (attempts, job.reason) == ([1, 2], "retries_exhausted")


async def test_a_kept_delivery_is_bounded_by_the_timeout(app: Headrace) -> None:
    orders = orders_of(app)
    kept: list[Delivery] = []

    @orders.subscribe("billing", ack="manual", timeout=0.1, retry=Retry(1))
    async def bill(order: Order, delivery: Delivery) -> None:
        kept.append(delivery)

    async with app.worker():
        await orders.publish(Order("o-1"))
        (job,) = await dead_ones(app)
        with pytest.raises(DeliveryUsed):
            await kept[0].ack()
    assert job.reason == "retries_exhausted"


async def test_a_kept_delivery_is_handed_back_when_the_worker_stops(app: Headrace) -> None:
    orders = orders_of(app)
    kept: list[Delivery] = []

    @orders.subscribe("billing", ack="manual")
    async def bill(order: Order, delivery: Delivery) -> None:
        kept.append(delivery)

    async with app.worker(drain=0.1):
        await orders.publish(Order("o-1"))
        await until(lambda: kept)
    assert (await group_of(app, "billing")).counts.waiting == 1
    with pytest.raises(DeliveryUsed):
        await kept[0].ack()


async def test_a_sync_handler_settles_by_hand(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", ack="manual")
    def bill(order: Order, delivery: Delivery) -> None:
        delivery.ack_sync()
        seen.append(order.id)

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: seen)
        assert (await group_of(app, "billing")).counts.running == 0


async def test_who_acknowledges_learns_that_it_could_not_be_written(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    kept: list[Delivery] = []

    @orders.subscribe("billing", ack="manual")
    async def bill(order: Order, delivery: Delivery) -> None:
        kept.append(delivery)

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr("headrace.worker.consume.consumer_loop._FLUSH_GRACE", 0.1)
    worker = app.worker(drain=0.1)
    async with worker:
        await orders.publish(Order("o-1"))
        await until(lambda: kept)
        assert worker.runtime is not None
        (loop,) = worker.runtime.loops
        monkeypatch.setattr(loop.consumer, "settle", away)
        acknowledging = asyncio.create_task(kept[0].ack())
    with pytest.raises(StoreUnavailable):
        await acknowledging
    assert worker.outcome is not None
    assert worker.outcome.errors == 1


FORKS = """
import asyncio, os, sys
from headrace import Delivery, Headrace
from tests.worker.topics import Order, orders_of

app = Headrace(sys.argv[1], lease=0.6)
orders = orders_of(app)
handled = asyncio.Event()

@orders.subscribe("billing", ack="manual")
async def bill(order: Order, delivery: Delivery) -> None:
    child = os.fork() == 0
    if order.id == "says so":
        await delivery.ack()
        print("child" if child else "parent", flush=True)
    if not child:
        handled.set()

async def main():
    async with app, app.worker():
        for id in ("says so", "says nothing"):
            handled.clear()
            await orders.publish(Order(id))
            await handled.wait()
        # A child that goes on as a worker would not end, and neither would this.
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
    print("end", os.getpid(), flush=True)

asyncio.run(main())
"""


async def test_a_fork_that_comes_back_settles_nothing_by_hand(tmp_path: Path) -> None:
    forking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FORKS, f"sqlite:///{tmp_path}/jobs.db"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    output, _ = await asyncio.wait_for(forking.communicate(), 60)
    assert output.decode().splitlines() == ["parent", f"end {forking.pid}"]
    assert forking.returncode == 0
