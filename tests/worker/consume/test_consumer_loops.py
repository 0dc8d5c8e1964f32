"""Each subscription has loops of its own: they are chosen, scaled and stopped apart."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace import ConfigError, Delivery, Headrace, Retry
from headrace.worker.consume.consumer_loop import ConsumerLoop
from headrace.worker.runtime import WorkerRuntime
from headrace.worker.worker import Worker
from tests.worker.states import AtOnce, until
from tests.worker.topics import Order, group_of, orders_of


async def test_each_group_gets_each_event_once_beside_jobs(app: Headrace) -> None:
    orders = orders_of(app)
    seen: dict[str, list[str]] = {"billing": [], "audit": []}

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen["billing"].append(order.id)

    @orders.subscribe("audit")
    def audit(order: Order) -> None:
        seen["audit"].append(order.id)

    async with app.worker():
        await orders.publish_many(Order(f"o-{number}") for number in range(50))
        assert await (await add.enqueue(2, 3)).result(30) == 5
        await until(lambda: all(len(ids) >= 50 for ids in seen.values()))
    assert {name: sorted(ids) for name, ids in seen.items()} == {
        name: sorted(f"o-{number}" for number in range(50)) for name in seen
    }
    for name in seen:
        assert (await group_of(app, name)).counts.waiting == 0


async def test_a_worker_serves_only_the_groups_it_is_given(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen.append(f"billed {order.id}")

    @orders.subscribe("audit")
    async def audit(order: Order) -> None:
        seen.append(f"audited {order.id}")

    await orders.publish(Order("o-1"))
    async with app.worker(queues=["billing@orders"]):
        await until(lambda: seen)
    assert seen == ["billed o-1"]
    async with app.worker(queues=["audit@orders"]):
        await until(lambda: len(seen) > 1)
    assert seen == ["billed o-1", "audited o-1"]


async def test_one_name_means_all_shards(app: Headrace) -> None:
    orders = orders_of(app, shards=3)
    seen: list[str] = []

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen.append(order.id)

    async with app.worker(queues=["billing@orders"]):
        await orders.publish_many(Order(f"o-{number}") for number in range(30))
        await until(lambda: len(seen) >= 30)
    assert sorted(seen) == sorted(f"o-{number}" for number in range(30))


def test_what_cannot_be_served_is_refused() -> None:
    app = Headrace("memory://")
    orders = orders_of(app)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None: ...

    @app.task
    async def work() -> None: ...

    assert app.worker(queues=["default", "billing@orders"]).queues == ["default"]
    with pytest.raises(ConfigError, match=r"no subscription for 'mailing@orders'; it has billing"):
        app.worker(queues=["mailing@orders"])
    with pytest.raises(ConfigError, match="weight of 'billing@orders' cannot be 3"):
        app.worker(queues={"default": 1, "billing@orders": 3})
    with pytest.raises(ConfigError, match="strict=True orders queues"):
        app.worker(queues=["default", "billing@orders"], strict=True)


def test_an_app_with_only_subscriptions_has_something_to_work_on() -> None:
    app = Headrace("memory://")
    orders = orders_of(app)
    with pytest.raises(ConfigError, match="the app has no tasks"):
        app.worker()

    @orders.subscribe("billing")
    async def bill(order: Order) -> None: ...

    assert app.worker().settings.group_queues == ["billing@orders"]


async def test_no_more_events_are_in_flight_than_may_be(app: Headrace) -> None:
    orders = orders_of(app)
    runs = AtOnce()

    @orders.subscribe("billing", max_in_flight=3)
    async def bill(order: Order) -> None:
        with runs:
            await asyncio.sleep(0.002)

    async with app.worker():
        await orders.publish_many(Order(f"o-{number}") for number in range(40))
        while runs.ended < 40:
            assert (await group_of(app, "billing")).counts.running <= 3
    assert runs.most <= 3


async def test_a_slot_is_free_only_when_the_outcome_is_written(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    begun: list[str] = []
    writes = asyncio.Event()

    @orders.subscribe("billing", max_in_flight=2)
    async def bill(order: Order) -> None:
        begun.append(order.id)

    worker = app.worker()
    async with worker:
        (loop,) = runtime_of(worker).loops
        settle = loop.consumer.settle

        async def wait_and_settle(*args: object, **kwargs: object) -> object:
            await writes.wait()
            return await settle(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(loop.consumer, "settle", wait_and_settle)
        await orders.publish_many(Order(f"o-{number}") for number in range(5))
        await until(lambda: len(begun) == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(begun), loop.slots.free) == (2, 0)
        writes.set()
        await until(lambda: len(begun) == 5)


def runtime_of(worker: Worker) -> WorkerRuntime:
    assert worker.runtime is not None
    return worker.runtime


async def test_loops_come_and_go_while_the_worker_runs(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []
    slow = asyncio.Event()

    @orders.subscribe("billing", max_in_flight=1)
    async def bill(order: Order) -> None:
        seen.append(order.id)
        await slow.wait()

    worker = app.worker()
    async with worker:
        runtime = runtime_of(worker)
        (first,) = runtime.loops.of(bill)
        second = await runtime.loops.add(bill)
        assert first.consumer.name != second.consumer.name
        await orders.publish_many(Order(f"o-{number}") for number in range(3))
        await until(lambda: len(seen) == 2)
        removing = asyncio.create_task(runtime.loops.remove(first))
        await asyncio.sleep(0)
        slow.set()
        await removing
        assert runtime.loops.of(bill) == [second]
        await until(lambda: len(seen) == 3)
    assert worker.outcome is not None
    assert (worker.outcome.errors, worker.outcome.timed_out) == (0, False)
    assert sorted(seen) == ["o-0", "o-1", "o-2"]


async def test_what_a_removed_line_counted_is_in_the_tally(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", ack="receive")
    async def bill(order: Order) -> None:
        seen.append(order.id)
        raise ValueError("no")

    worker = app.worker()
    async with worker:
        runtime = runtime_of(worker)
        (first,) = runtime.loops.of(bill)
        await orders.publish(Order("o-1"))
        await until(lambda: first.tally.unhandled_events)
        await runtime.loops.add(bill)
        await runtime.loops.remove(first)
        await orders.publish(Order("o-2"))
        await until(lambda: len(seen) == 2)
    assert worker.outcome is not None
    assert worker.outcome.unhandled_events == 2


async def test_all_lines_stop_at_once_within_one_deadline(app: Headrace) -> None:
    orders = orders_of(app)
    begun: list[str] = []

    async def hang(order: Order) -> None:
        begun.append(order.id)
        await asyncio.sleep(600)

    for group in ("one", "two", "three"):
        orders.subscribe(group)(hang)
    worker = app.worker(drain=0.2)
    async with worker:
        await orders.publish(Order("o-1"))
        await until(lambda: len(begun) == 3)
    assert worker.outcome is not None
    assert (worker.outcome.timed_out, worker.outcome.errors) == (True, 0)
    for group in ("one", "two", "three"):
        state = await group_of(app, group)
        assert (state.counts.waiting, state.counts.running) == (1, 0)


async def test_a_partial_batch_is_run_when_the_worker_stops(app: Headrace) -> None:
    orders = orders_of(app)
    batches: list[list[str]] = []

    @orders.subscribe("warehouse", batch=10, max_wait=600)
    async def load(found: list[Order]) -> None:
        batches.append([order.id for order in found])

    worker = app.worker()
    async with worker:
        await orders.publish_many(Order(f"o-{number}") for number in range(13))
        (loop,) = runtime_of(worker).loops
        await until(lambda: batches and loop.in_flight == 3)
    assert [len(batch) for batch in batches] == [10, 3]
    assert (await group_of(app, "warehouse")).counts.waiting == 0


async def test_each_event_of_a_batch_has_a_slot(app: Headrace) -> None:
    orders = orders_of(app)
    sizes: list[int] = []
    go_on = asyncio.Event()

    @orders.subscribe("warehouse", batch=4, max_wait=600, max_in_flight=6)
    async def load(found: list[Order]) -> None:
        sizes.append(len(found))
        await go_on.wait()

    worker = app.worker()
    async with worker:
        (loop,) = runtime_of(worker).loops
        await orders.publish_many(Order(f"o-{number}") for number in range(20))
        # Four run, and the next read has brought two of the following batch.
        await until(lambda: sizes == [4] and loop.slots.free == 0)
        assert (await group_of(app, "warehouse")).counts.running == 6
        go_on.set()
        await until(lambda: sum(sizes) == 20)


async def test_two_batches_fit_by_default(app: Headrace) -> None:
    orders = orders_of(app)

    @orders.subscribe("warehouse", batch=500)
    async def load(found: list[Order]) -> None: ...

    @orders.subscribe("small", batch=5)
    async def small(found: list[Order]) -> None: ...

    worker = app.worker(concurrency=100)
    async with worker:
        runtime = runtime_of(worker)
        assert [loop.slots.total for loop in runtime.loops] == [1000, 100]


async def test_a_failed_event_is_retried_in_its_group_alone(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing", retry=Retry(3, base=0.01))
    async def bill(order: Order) -> None:
        seen.append("billing")
        if seen.count("billing") < 3:
            raise ValueError("not yet")

    @orders.subscribe("audit")
    async def audit(order: Order) -> None:
        seen.append("audit")

    async with app.worker():
        await orders.publish(Order("o-1"))
        await until(lambda: seen.count("billing") == 3)
    assert seen.count("audit") == 1


async def test_a_delayed_event_comes_when_it_is_due(app: Headrace) -> None:
    orders = orders_of(app)
    seen: list[str] = []

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen.append(order.id)

    async with app.worker():
        await orders.publish(Order("later"), delay=0.2)
        await orders.publish(Order("now"))
        await until(lambda: len(seen) == 2)
    assert seen == ["now", "later"]


async def test_what_is_taken_over_needs_slots_too() -> None:
    app = Headrace("memory://", lease=0.6)
    orders = orders_of(app)
    runs = AtOnce()

    @orders.subscribe("billing", max_in_flight=2)
    async def bill(order: Order) -> None:
        with runs:
            await asyncio.sleep(0.001)

    await orders.create_groups(await app.session())
    await orders.publish_many(Order(f"o-{number}") for number in range(12))
    gone = app.store.consumer("gone", ["billing@orders"], app.lease)
    assert len(await gone.fetch(6, 5.0)) == 6
    async with app, app.worker():
        await until(lambda: runs.ended == 12)
    assert runs.most <= 2


async def test_a_thread_that_cannot_be_stopped_keeps_its_slot(app: Headrace) -> None:
    orders = orders_of(app)
    begun: list[str] = []
    go_on = threading.Event()

    @orders.subscribe("billing", max_in_flight=1, timeout=0.05, retry=Retry(1))
    def bill(order: Order) -> None:
        begun.append(order.id)
        go_on.wait(60)

    worker = app.worker()
    async with worker:
        await orders.publish_many([Order("first"), Order("second")])
        while not (await app.store.count("billing@orders")).dead:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        (loop,) = runtime_of(worker).loops
        await until(lambda: not loop.in_flight)
        assert (begun, loop.slots.free) == (["first"], 0)
        go_on.set()
        await until(lambda: len(begun) == 2)


async def test_what_goes_wrong_in_one_line_ends_no_other(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    ended: list[str] = []
    go_on = asyncio.Event()

    async def work(order: Order) -> None:
        await go_on.wait()
        ended.append(order.id)

    for group in ("one", "two"):
        orders.subscribe(group)(work)

    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    worker = app.worker()
    async with worker:
        await orders.publish(Order("o-1"))
        first, second = runtime_of(worker).loops
        await until(lambda: first.in_flight and second.in_flight)
        monkeypatch.setattr(first, "_flush", broken)
        worker.stop()
        go_on.set()
    assert worker.outcome is not None
    assert (worker.outcome.crashes, len(ended)) == (1, 2)


async def test_each_line_keeps_its_own_leases(app: Headrace) -> None:
    orders = orders_of(app)
    fences: list[int] = []
    go_on = asyncio.Event()

    @orders.subscribe("billing", max_in_flight=1, consumers=2)
    async def bill(order: Order, delivery: Delivery) -> None:
        fences.append(delivery.fence)
        await go_on.wait()

    worker = app.worker()
    async with worker:
        await orders.publish_many([Order("o-1"), Order("o-2")])
        await until(lambda: len(fences) == 2)
        await asyncio.sleep(2.5 * app.lease)
        go_on.set()
    assert worker.outcome is not None
    assert (fences, worker.outcome.lost_leases) == ([1, 1], 0)


async def test_a_loop_that_is_prepared_while_its_worker_stops_never_starts(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    prepared, go_on = asyncio.Event(), asyncio.Event()
    prepare, drain = ConsumerLoop.prepare, ConsumerLoop.drain

    async def prepare_slowly(loop: ConsumerLoop) -> None:
        prepared.set()
        await go_on.wait()
        await prepare(loop)

    async def drain_first(loop: ConsumerLoop, ends_at: float, hurrying: asyncio.Event) -> None:
        await drain(loop, ends_at, hurrying)
        go_on.set()

    @app.task
    async def work() -> None: ...

    async with app.worker():
        monkeypatch.setattr(ConsumerLoop, "prepare", prepare_slowly)
        monkeypatch.setattr(ConsumerLoop, "drain", drain_first)

        @orders.subscribe("billing")
        async def bill(order: Order) -> None: ...

        await prepared.wait()
    left = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in left if name.startswith("headrace-reader")]
