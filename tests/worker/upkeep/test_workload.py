"""How much there is to do for consumers, read from every kind of store."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headrace import Headrace
from headrace.client.topic.subscription import Subscription
from headrace.core.job.capacity import Capacity
from headrace.core.scaling.scaler import Scaler
from headrace.core.scaling.scaling import Scaling
from headrace.core.workers import Scaled, WorkerRecord
from headrace.store.topics import Position
from headrace.worker.upkeep.workload import (
    QueueLoad,
    Workload,
    WorkloadSurvey,
    take_survey,
    workload_of,
    workloads_of,
)


@dataclass
class Order:
    number: int


@pytest.fixture
async def billing(app: Headrace) -> Subscription[..., object]:
    """A group of a topic with two shards; nobody reads it."""

    @app.task
    async def work() -> None: ...

    orders = app.topic("orders", Order, shards=2, key=lambda order: str(order.number))

    @orders.subscribe("billing", consumers=(1, 4), max_in_flight=5)
    async def bill(order: Order) -> None: ...

    for queue in bill.queues:
        await app.store.join(queue, bill.group, Position("start"))
    return bill


async def seen(app: Headrace, workload: Workload) -> QueueLoad:
    return (await take_survey(app.store, [workload])).seen[workload]


async def test_the_backlog_of_a_group_is_that_of_all_its_shards(
    app: Headrace, billing: Subscription[..., object]
) -> None:
    workload = workload_of(billing, app.worker(concurrency=100, threads=8).settings)
    assert await seen(app, workload) == QueueLoad()
    await app.topics["orders"].publish_many([Order(number) for number in range(20)])
    found = await seen(app, workload)
    assert (found.waiting, found.running, found.scheduled) == (20, 0, 0)
    assert found.oldest_age is not None
    # In seconds.
    assert 0 <= found.oldest_age < 600


async def test_what_a_consumer_holds_runs_and_does_not_wait(
    app: Headrace, billing: Subscription[..., object]
) -> None:
    await app.topics["orders"].publish_many([Order(number) for number in range(20)])
    consumer = app.store.consumer("worker", billing.queues, 30.0)
    held = await consumer.fetch(3, 1.0)
    found = await seen(app, workload_of(billing, app.worker(concurrency=100, threads=8).settings))
    assert (found.waiting, found.running) == (20 - len(held), len(held))
    await consumer.close()


async def test_a_group_that_is_paused_has_no_backlog(
    app: Headrace, billing: Subscription[..., object]
) -> None:
    await app.topics["orders"].publish_many([Order(number) for number in range(20)])
    for queue in billing.queues:
        await app.store.pause(queue)
    assert (
        await seen(app, workload_of(billing, app.worker(concurrency=100, threads=8).settings))
    ).waiting == 0


async def test_jobs_that_are_due_later_are_seen_but_do_not_wait(
    app: Headrace, billing: Subscription[..., object]
) -> None:
    work = app.tasks["work"]
    await work.enqueue()
    await work.options(delay=1000).enqueue()
    workload = Workload("jobs", ("default",), 10)
    survey = await take_survey(app.store, [workload])
    found = survey.seen[workload]
    assert (found.waiting, found.running, found.scheduled) == (1, 0, 1)
    (load,) = survey.loads(2, lambda _: False)
    assert (load.backlog, load.capacity) == (1, 20)
    assert str(load).startswith("1 jobs (1 later) wait")


async def test_a_worker_can_hold_what_all_its_consumers_can(
    app: Headrace, billing: Subscription[..., object]
) -> None:
    worker = app.worker(concurrency=7, threads=3, processes=20)
    *jobs, group = workloads_of(worker.settings)
    assert jobs == [
        Workload("jobs", ("default",), 7),
        Workload("jobs", ("default",), 3, "thread"),
        Workload("jobs", ("default",), 7, "process"),
    ]
    assert group == Workload("orders/billing", ("billing@orders", "billing@orders#1"), 4 * 5)


async def test_jobs_that_wait_for_threads_are_counted_by_threads(app: Headrace) -> None:
    @app.task
    async def wait() -> None: ...

    @app.task
    def block() -> None: ...

    await app.enqueue_many([*(wait.call() for _ in range(5)), *(block.call() for _ in range(40))])
    loop, thread, process = workloads_of(app.worker(threads=2).settings)
    consumer = app.store.consumer("worker", ["default"], 30.0)
    await consumer.fetch(2, 0, Capacity(0, 2, 0))
    survey = await take_survey(app.store, [loop, thread, process])
    await consumer.close()
    counts = [(found.waiting, found.running) for found in survey.seen.values()]
    assert counts == [(5, 0), (38, 2), (0, 0)]
    ages = [found.oldest_age for found in survey.seen.values()]
    assert [age is not None for age in ages] == [True, True, False]
    _, load, _ = survey.loads(1, lambda _: True)
    assert (load.backlog, load.capacity, load.running) == (38, 2, 2)
    assert "jobs for threads wait" in str(load)
    scaler = Scaler(Scaling(1, 3, hysteresis=0.0))
    assert scaler.decide(0.0, *survey.loads(1, lambda _: True)).target == 3


async def test_the_age_of_jobs_that_wait_for_threads_calls_for_more(app: Headrace) -> None:
    @app.task
    def block() -> None: ...

    await app.enqueue_many([block.call() for _ in range(5)])
    workloads = workloads_of(app.worker(threads=2).settings)
    consumer = app.store.consumer("worker", ["default"], 30.0)
    await consumer.fetch(2, 0, Capacity(0, 2, 0))
    survey = await take_survey(app.store, workloads)
    await consumer.close()
    loads = [
        load._replace(oldest_age=None if load.oldest_age is None else load.oldest_age + 100)
        for load in survey.loads(1, lambda _: True)
    ]
    decision = Scaler(Scaling(1, 3, up=10.0, age=1.0, hysteresis=0.0)).decide(0.0, *loads)
    assert (decision.target, decision.reason) == (2, "age")


def test_slots_elsewhere_are_those_of_workers_that_serve_the_same() -> None:
    def worker(pid: int, queues: dict[str, int], **consumers: int) -> WorkerRecord:
        told = {name: Scaled(1, 1, 1, slots) for name, slots in consumers.items()}
        return WorkerRecord(
            *(str(pid), "host", pid, 0, queues, 100, "", "", 0, 0), threads=8, consumers=told
        )

    workers = (
        worker(1, {"default": 1}),
        worker(2, {"mail": 1}),
        worker(3, {"mail": 1}, billing=5),
        worker(4, {"default": 1, "mail": 1}, billing=7),
    )
    jobs, group = Workload("jobs", ("default",), 1), Workload("billing", ("billing@orders",), 1)
    blocking = Workload("jobs", ("default",), 1, "thread")
    survey = WorkloadSurvey(dict.fromkeys((jobs, blocking, group), QueueLoad()), workers)
    loads = survey.loads(1, lambda worker: worker.pid == 1)
    assert [load.elsewhere for load in loads] == [100, 8, 12]
