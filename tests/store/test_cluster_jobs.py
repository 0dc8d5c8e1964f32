"""Jobs on a Redis Cluster, in queues that live on different nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from headrace import Delivery, Headrace, Job, StoreUnavailable, chain, group
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.parcel import Child
from headrace.core.job.state import State
from headrace.store.contract import Settlement, Store, StoreConsumer
from headrace.store.redis.store import RedisStore
from headrace.store.values import Counts
from headrace.testing import StoreConformance
from headrace.testing.conformance.ground import kept, known, parcel
from tests.servers import RedisCluster, RedisServer
from tests.store.patience import eventually
from tests.store.redis_time import OnRedisTime, RedisClock, TimedRedisStore
from tests.worker.states import until


class TestCluster(OnRedisTime, StoreConformance):
    """Every promise of the contract; where a test has several queues, they are on three nodes."""

    @pytest.fixture
    async def store(self, cluster: RedisCluster, spread_namespace: str) -> AsyncIterator[Store]:
        self.clock = RedisClock([node.url for node in cluster.masters], spread_namespace)
        store = TimedRedisStore(cluster.url, spread_namespace, self.clock)
        await store.open()
        yield store
        await store.close()


@pytest.fixture
async def store(cluster: RedisCluster, spread_namespace: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(cluster.url, namespace=spread_namespace, crash_limit=3)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def elsewhere(cluster: RedisCluster, store: RedisStore) -> RedisServer:
    """A node that does not have queue a."""
    return cluster.owner(store.keys("b").ready)


async def settled(consumer: StoreConsumer, deliveries: list[LeasedDelivery]) -> None:
    done = [Settlement(delivery, kept()) for delivery in known(deliveries)]
    assert await consumer.settle("a", done) == []


async def test_the_index_of_a_queue_is_on_its_node(store: RedisStore) -> None:
    sent = [*(parcel() for _ in range(100)), *(parcel(job_id=f"order-{n}") for n in range(100))]
    await store.append("a", sent)
    keys = store.keys("a")
    for each in sent:
        bucket = keys.bucket_of(each.job_id)
        assert await store.links().ask.call("HEXISTS", bucket, each.job_id, key=keys.ready) == 1
    worker = store.consumer("worker", ["a"], 30.0)
    while taken := await worker.fetch(100, 0):
        await settled(worker, taken)
    await worker.close()
    bucket = keys.bucket_of(sent[0].job_id)
    assert await store.links().ask.call("EXISTS", bucket, key=keys.ready) == 0


async def test_a_queue_that_moves_to_another_node_takes_its_jobs_and_leases_along(
    cluster: RedisCluster, store: RedisStore, elsewhere: RedisServer
) -> None:
    jobs = [parcel() for _ in range(5)]
    later = parcel(delay_ms=3_600_000)
    await store.append("a", [*jobs, later])
    consumer = store.consumer("worker", ["a"], 30)
    held = await consumer.fetch(2, 1)
    cluster.move(store.keys("a").ready, elsewhere)

    assert await store.count("a") == Counts(waiting=3, running=2, scheduled=1)
    await settled(consumer, held)
    await settled(consumer, await eventually(lambda: consumer.fetch(3, 1)))
    assert await store.count("a") == Counts(scheduled=1)
    snapshots = await store.get("a", [job.job_id for job in jobs])
    assert all(snapshot and snapshot.state is State.DONE for snapshot in snapshots)
    await consumer.close()


async def test_nothing_is_half_done_while_a_queue_is_being_moved(
    cluster: RedisCluster, store: RedisStore, elsewhere: RedisServer
) -> None:
    await store.append("a", [parcel() for _ in range(2)])
    consumer = store.consumer("worker", ["a"], 30)
    held = known(await consumer.fetch(1, 1))
    ready = store.keys("a").ready

    async def all_is_refused() -> None:
        with pytest.raises(StoreUnavailable) as refused:
            await store.append("a", [parcel()])
        assert not refused.value.sent
        with pytest.raises(StoreUnavailable):
            await settled(consumer, held)

    cluster.begin_move(ready, elsewhere)
    await all_is_refused()
    cluster.move_keys(ready, elsewhere)
    await all_is_refused()
    # The other queues do not mind.
    await store.append("b", [parcel()])
    cluster.end_move(ready, elsewhere)

    await settled(consumer, held)
    assert await store.count("a") == Counts(waiting=1)
    await consumer.close()


@pytest.mark.parametrize("moved", [False, True], ids=["about to move", "half moved"])
async def test_other_queues_go_on_while_one_is_being_moved(
    cluster: RedisCluster, store: RedisStore, elsewhere: RedisServer, moved: bool
) -> None:
    consumer = store.consumer("worker", ["a", "c"], 30)
    await consumer.fetch(1, 0)
    ready = store.keys("a").ready
    cluster.begin_move(ready, elsewhere)
    if moved:
        cluster.move_keys(ready, elsewhere)
    await store.append("c", [parcel()])

    assert len(await eventually(lambda: consumer.fetch(1, 0.2))) == 1
    cluster.move_keys(ready, elsewhere)
    cluster.end_move(ready, elsewhere)
    await store.append("a", [parcel()])
    assert len(await eventually(lambda: consumer.fetch(1, 0.2))) == 1
    await consumer.close()


async def test_the_end_of_a_job_reaches_a_queue_on_another_node(store: RedisStore) -> None:
    first, second = parcel(), parcel()
    second = msgspec.structs.replace(second, parents=(first.job_id,))
    first = msgspec.structs.replace(first, children=(Child("b", second.job_id),))
    await store.append("b", [second])
    await store.append("a", [first])
    assert await store.count("b") == Counts(blocked=1)

    consumer = store.consumer("worker", ["a", "b"], 30)
    await settled(consumer, await consumer.fetch(1, 1))
    (message,) = await consumer.flow_messages("a")
    assert (message.queue, message.arrival.child) == ("b", second.job_id)
    await store.arrive(message.queue, [message.arrival])
    await consumer.ack_flow_messages("a", [message])
    (delivery,) = known(await consumer.fetch(1, 1))
    assert (delivery.queue, delivery.job_id) == ("b", second.job_id)
    await consumer.close()


async def test_notes_and_signals_are_one_for_all_nodes(store: RedisStore) -> None:
    changed = asyncio.Event()
    heard = await store.on_kv("schedules", lambda keys: changed.set())
    async with asyncio.timeout(30):
        while not changed.is_set():
            assert await store.kv_set("schedules", "nightly", b"1")
            await asyncio.sleep(0.02)
    assert await store.kv_all("schedules") == {"nightly": b"1"}
    await heard.close()


@pytest.fixture
async def app(cluster: RedisCluster, spread_namespace: str) -> AsyncIterator[Headrace]:
    async with Headrace(cluster.url, namespace=spread_namespace, lease=2) as app:
        yield app


async def test_one_worker_runs_the_jobs_of_queues_on_all_nodes(app: Headrace) -> None:
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app.worker(queues=["a", "b", "c"]):
        jobs = [
            await double.options(queue=queue, priority=number % 3).enqueue(number)
            for number in range(30)
            for queue in ("a", "b", "c")
        ]
        results = [await job.result(60) for job in jobs]
    assert results == [2 * number for number in range(30) for _ in "abc"]


async def test_a_pattern_serves_topics_on_all_nodes(app: Headrace) -> None:
    seen: list[tuple[str, str]] = []

    @app.subscribe("orders.*", "billing", event=str)
    async def bill(order: str, delivery: Delivery) -> None:
        seen.append((delivery.topic, order))

    sent = [(f"orders.{at}", str(event)) for at in range(8) for event in range(3)]
    topics = {name: app.topic(name, str) for name in {name for name, _ in sent[:12]}}
    async with app.worker():
        # Some appear while the worker runs.
        topics |= {name: app.topic(name, str) for name in {name for name, _ in sent[12:]}}
        for name, order in sent:
            await topics[name].publish(order)
        await until(lambda: len(seen) >= len(sent))
    assert sorted(seen) == sorted(sent)


async def test_a_flow_crosses_nodes(app: Headrace) -> None:
    @app.task(queue="a")
    async def one() -> int:
        return 1

    @app.task(queue="b")
    async def more(number: int) -> int:
        return number + 1

    @app.task(queue="c")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    waiting = await app.enqueue(group([one.call(), more.call(1)]).then(total.call()))
    drawn = await app.admin.flow(waiting.jobs[0].id)
    assert (drawn.id, {job.queue for job in drawn.jobs}) == (waiting.id, {"a", "b", "c"})
    assert {job.state for job in drawn.jobs} == {State.WAITING, State.BLOCKED}
    async with app.worker():
        steps = [chain(one.call(), more.call(), more.call()) for _ in range(3)]
        in_turn = [await app.enqueue(step) for step in steps]
        assert [await job.result(60) for job in in_turn] == [3, 3, 3]
        joined = await app.enqueue(group([one.call(), more.call(1)]).then(total.call()))
        assert await joined.result(60) == 3


async def test_no_job_is_lost_or_run_twice_when_queues_move_under_a_worker(
    app: Headrace, cluster: RedisCluster, spread_namespace: str
) -> None:
    runs: Counter[int] = Counter()

    @app.task
    async def count(number: int) -> int:
        runs[number] += 1
        return number

    key = f"{{{spread_namespace}:a}}:ready"
    others = [node for node in cluster.masters if node is not cluster.owner(key)]
    async with app.worker(queues=["a", "b", "c"]):
        jobs = []
        for number in range(200):
            queue = "abc"[number % 3]
            jobs.append(await eventually(lambda: count.options(queue=queue).enqueue(number)))  # noqa: B023
            if number % 50 == 25:
                cluster.move(key, others[number // 50 % 2])
        assert [await job.result(60) for job in jobs] == list(range(200))
    assert set(runs.values()) == {1}


async def test_work_goes_on_after_a_master_died(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, replicas=1) as cluster:
        app = Headrace(cluster.url, lease=2)

        @app.task
        async def double(number: int) -> int:
            return 2 * number

        async def enqueued(number: int, queue: str) -> Job[int]:
            return await double.options(queue=queue).enqueue(number)

        async with app, app.worker(queues=["a", "b", "c", "d"]):
            for queue in "abcd":
                assert await (await enqueued(4, queue)).result(60) == 8
            cluster.owner("{headrace:a}:ready").kill()
            for queue in "abcd":
                job = await eventually(lambda: enqueued(5, queue))  # noqa: B023
                assert await job.result(60) == 10
