"""Flows: jobs that wait for others and are given their results, on every store."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from headrace import (
    ArgumentError,
    Call,
    ConfigError,
    FlowJob,
    Headrace,
    Job,
    JobCancelled,
    JobFailed,
    JobNotFound,
    Retry,
    State,
    StoreFull,
    chain,
    group,
)
from headrace.client.job import Send
from headrace.middleware.wrapping import Middleware


@dataclass
class Bill:
    total: Decimal


class Tasks:
    """Some that are used here again and again; `total` is of another queue."""

    def __init__(self, app: Headrace) -> None:
        @app.task
        async def add(a: int, b: int = 1) -> int:
            return a + b

        @app.task(queue="totals")
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        @app.task(retry=Retry(1))
        async def fail(a: int = 0) -> int:
            raise ValueError("no")

        @app.task
        async def describe(result: int | None) -> str:
            return f"it was {result}"

        self.add, self.total, self.fail, self.describe = add, total, fail, describe


@pytest.fixture
def tasks(app: Headrace) -> Tasks:
    return Tasks(app)


async def test_a_chain_passes_each_result_on(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        job = await app.enqueue(chain(tasks.add.call(1), tasks.add.call(), tasks.add.call(40)))
        assert await job.result(30) == 43
        assert [await one.status() for one in job.jobs] == [State.DONE] * 3
        assert job.jobs[-1] == job


async def test_results_arrive_as_what_they_were(app: Headrace) -> None:
    @app.task
    async def bill(total: Decimal) -> Bill:
        return Bill(total)

    @app.task
    async def doubled(first: Bill, *, times: int) -> Decimal:
        return first.total * times

    async with app.worker():
        job = await app.enqueue(chain(bill.call(Decimal("1.5")), doubled.call(times=2)))
        assert await job.result(30) == Decimal("3.0")


async def test_a_group_gives_the_list_of_results_in_order(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        job = await app.enqueue(group(tasks.add.call(number) for number in range(20)))
        assert await job.result(30) == list(range(1, 21))
        assert await job.status() is State.DONE


async def test_a_group_then_one_that_takes_the_list(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        adding = group([tasks.add.call(number) for number in range(10)])
        job = await app.enqueue(adding.then(tasks.total.call()))
        assert await job.result(30) == 55


async def test_a_group_in_the_middle_of_a_chain(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        middle = group([tasks.add.call(10), chain(tasks.add.call(20), tasks.add.call(30))])
        flow = chain(tasks.add.call(1), middle, tasks.total.call(), tasks.add.call())
        assert await (await app.enqueue(flow)).result(30) == 12 + 52 + 1


async def test_a_graph_is_sent_by_its_last_call(app: Headrace, tasks: Tasks) -> None:
    x = tasks.add.call(1)
    y = tasks.add.call().after(x)
    z = tasks.total.call().after(x, y)
    async with app.worker():
        job = await app.enqueue(z)
        assert await job.result(30) == 2 + 3
        assert isinstance(job, FlowJob)
        assert len(job.jobs) == 3


async def test_a_call_that_has_all_arguments_only_waits(app: Headrace) -> None:
    order: list[str] = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)

    async with app.worker():
        last = note.call("last").after(note.call("one"), note.call("two"))
        await (await app.enqueue(last)).result(30)
    assert order[-1] == "last"
    assert sorted(order) == ["last", "one", "two"]


async def test_a_flow_can_be_after_a_job_that_has_ended(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        parent = await tasks.add.enqueue(1)
        assert await parent.result(30) == 2
        child = await app.enqueue(tasks.add.call(10).after(parent))
        fed = await app.enqueue(tasks.describe.call().after(parent))
        both = await app.enqueue(tasks.total.call().after(parent, child))
        assert await child.result(30) == 11
        assert await fed.result(30) == "it was 2"
        assert await both.result(30) == 13


async def test_a_flow_can_be_after_a_job_that_has_not_begun(app: Headrace, tasks: Tasks) -> None:
    parent = await tasks.add.enqueue(1)
    child = await app.enqueue(tasks.total.call().after(parent, tasks.add.call(5)))
    # The other call of the flow waits for a worker.
    assert await child.status() is State.WAITING
    async with app.worker():
        assert await child.result(30) == 2 + 6


async def test_a_flow_can_be_after_a_group_that_was_sent(app: Headrace, tasks: Tasks) -> None:
    sent = await app.enqueue(group([tasks.add.call(1), tasks.add.call(2)]))
    child = await app.enqueue(tasks.total.call().after(sent))
    async with app.worker():
        assert await child.result(30) == 5


async def test_a_failure_goes_all_the_way(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        flow = chain(tasks.fail.call(1), tasks.add.call(), tasks.add.call())
        job = await app.enqueue(flow)
        with pytest.raises(JobFailed, match="parent_failed"):
            await job.result(30)
        assert [await one.status() for one in job.jobs] == [State.DEAD] * 3


async def test_a_failure_in_a_group_is_raised(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        job = await app.enqueue(group([tasks.add.call(1), tasks.fail.call(1)]))
        with pytest.raises(JobFailed, match="ValueError: no"):
            await job.result(30)
        assert await job.status() is State.DEAD


async def test_what_runs_anyway_runs_after_a_failure(app: Headrace, tasks: Tasks) -> None:
    async with app.worker():
        failing = tasks.fail.call(1)
        job = await app.enqueue(tasks.describe.call().after(failing, if_failed="run"))
        assert await job.result(30) == "it was None"


async def test_cancelling_a_flow_ends_what_has_not_begun(app: Headrace, tasks: Tasks) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def wait() -> int:
        begun.set()
        await go_on.wait()
        return 1

    async with app.worker():
        flow = chain(wait.call(), group([tasks.add.call(), tasks.add.call()]), tasks.total.call())
        job = await app.enqueue(flow)
        await begun.wait()
        assert await job.cancel(running=False) is True
        with pytest.raises(JobCancelled):
            await job.result(30)
        go_on.set()
        assert await job.jobs[0].result(30) == 1
        assert [await one.status() for one in job.jobs[1:]] == [State.CANCELLED] * 3


async def test_a_job_that_begins_while_its_flow_is_cancelled_goes_on(
    app: Headrace, tasks: Tasks
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    cancel = app.store.cancel

    @app.task(queue="first")
    async def wait() -> int:
        begun.set()
        await go_on.wait()
        return 1

    async def late(queue: str, job_ids: Any, *, running: bool = True) -> Any:
        if queue == "first":
            await begun.wait()
        return await cancel(queue, job_ids, running=running)

    app.store.cancel = late  # type: ignore[method-assign]
    job = await app.enqueue(chain(wait.call(), tasks.add.call()))
    cancelling = asyncio.create_task(job.cancel(running=False))
    async with app.worker():
        assert await cancelling
        # Heeded before it ends: what is wished is read again and again.
        assert not (await app.store.control("first")).cancelling
        go_on.set()
        assert await job.jobs[0].result(30) == 1
        assert await job.status() is State.CANCELLED


async def test_cancelling_a_flow_says_whether_any_of_it_is_cancelled(
    app: Headrace, tasks: Tasks
) -> None:
    job = await app.enqueue(chain(tasks.add.call(1), tasks.add.call()))
    assert await job.cancel() is True
    assert await job.cancel() is True
    async with app.worker():
        done = await app.enqueue(chain(tasks.add.call(1), tasks.add.call()))
        await done.result(30)
        assert await done.cancel() is False


async def test_a_flow_of_many_jobs_is_sent_in_batches_and_little_memory(
    app: Headrace, tasks: Tasks
) -> None:
    appended: list[int] = []
    append = app.store.append

    async def counted(queue: str, parcels: Any, **options: Any) -> Any:
        appended.append(len(parcels))
        return await append(queue, parcels, **options)

    app.store.append = counted  # type: ignore[method-assign]
    tracemalloc.start()
    many = group(tasks.add.call(number) for number in range(2_000))
    job = await app.enqueue(many.then(tasks.total.call()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert appended == [1, *[500] * 4]
    # The calls and handles themselves, and what is on its way: some kilobytes a job, not more.
    assert peak < 4_000_000
    async with app.worker(concurrency=500):
        assert await job.result(120) == sum(range(1, 2_001))


async def test_jobs_of_two_queues_wait_for_one_another(app: Headrace, tasks: Tasks) -> None:
    step = tasks.add
    steps = [step.options(queue=f"q{n % 2}").call() for n in range(20)]
    async with app.worker(queues=["q0", "q1", "default"]):
        job = await app.enqueue(chain(step.call(0), *steps))
        assert await job.result(30) == 21


async def test_a_flow_whose_last_job_is_unique_is_sent_once(app: Headrace, tasks: Tasks) -> None:
    def flow() -> Any:
        join = tasks.total.options(unique="the-total").call()
        return group([tasks.add.call(1), tasks.add.call(2)]).then(join)

    first, second = await app.enqueue(flow()), await app.enqueue(flow())
    assert first == second
    assert (await app.store.count("default")).waiting == 2
    async with app.worker():
        assert await second.result(30) == 5


async def test_a_flow_with_chosen_ids_may_be_sent_again(app: Headrace, tasks: Tasks) -> None:
    def flow() -> Any:
        return chain(
            tasks.add.options(id="one").call(1),
            tasks.add.options(id="two").call(),
            tasks.add.options(id="three").call(),
        )

    await app.enqueue(flow())
    again = await app.enqueue(flow())
    assert (await app.store.count("default")).waiting == 1
    async with app.worker():
        assert await again.result(30) == 4
        assert await (await app.enqueue(flow())).result(30) == 4


async def nothing_is_stored(app: Headrace) -> bool:
    counts = [await app.store.count(queue) for queue in await app.store.queues()]
    return not any(count.waiting or count.blocked or count.dead for count in counts)


async def test_a_circle_is_refused_and_nothing_is_sent(app: Headrace, tasks: Tasks) -> None:
    x, y = tasks.add.call(1), tasks.add.call(2)
    with pytest.raises(ConfigError, match="'add' → 'add' → 'add'"):
        await app.enqueue(x.after(y.after(x), tasks.add.call(3)))
    assert await nothing_is_stored(app)


async def test_a_parent_that_is_unknown_is_refused_and_nothing_is_sent(
    app: Headrace, tasks: Tasks
) -> None:
    unknown = app.job("never-sent")
    with pytest.raises(JobNotFound, match="never-sent"):
        await app.enqueue(tasks.total.call().after(tasks.add.call(1), unknown))
    assert await nothing_is_stored(app)


async def test_an_open_call_is_refused_unless_something_feeds_it(
    app: Headrace, tasks: Tasks
) -> None:
    with pytest.raises(ArgumentError, match="first argument is missing"):
        await app.enqueue(tasks.describe.call())  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="first argument is missing"):
        await app.enqueue_many([tasks.describe.call()])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="first argument is missing"):
        await app.enqueue(chain(tasks.add.call(), tasks.add.call()))  # type: ignore[call-overload]
    assert await nothing_is_stored(app)


async def test_only_the_last_call_of_a_flow_can_be_unique(app: Headrace, tasks: Tasks) -> None:
    once = tasks.add.options(unique=True)
    with pytest.raises(ConfigError, match="only the last call"):
        await app.enqueue(chain(once.call(1), tasks.add.call()))
    with pytest.raises(ConfigError, match="debounced"):
        await app.enqueue(chain(tasks.add.call(1), tasks.add.options(debounce=5).call()))
    assert await nothing_is_stored(app)


@pytest.mark.parametrize("what", [None, 5, "add"])
async def test_only_calls_and_flows_can_be_sent(app: Headrace, what: Any) -> None:
    with pytest.raises(ConfigError, match="takes calls"):
        await app.enqueue(what)


async def test_flows_are_sent_one_at_a_time(app: Headrace, tasks: Tasks) -> None:
    many: Any = [tasks.add.call(1), chain(tasks.add.call(1), tasks.add.call())]
    with pytest.raises(ConfigError, match=r"with enqueue\(\)"):
        await app.enqueue_many(many)
    with pytest.raises(ConfigError, match="waits for others"):
        await app.enqueue_many([tasks.add.call(1).after(tasks.add.call(2))])
    assert await nothing_is_stored(app)


async def test_a_flow_that_fits_only_half_is_cancelled(app: Headrace, tasks: Tasks) -> None:
    append = app.store.append

    async def full_later(queue: str, parcels: Any, **options: Any) -> Any:
        if queue == "default":
            raise StoreFull("no room")
        return await append(queue, parcels, **options)

    app.store.append = full_later  # type: ignore[method-assign]
    with pytest.raises(StoreFull):
        await app.enqueue(group([tasks.add.call(1)]).then(tasks.total.call()))
    assert await nothing_is_stored(app)


async def test_each_call_of_a_flow_goes_through_the_middleware(app: Headrace, tasks: Tasks) -> None:
    seen: list[str] = []

    class Watching(Middleware):
        async def send(self, call: Call[Any], send: Send) -> Job[Any]:
            seen.append(call.task)
            return await send(call.with_headers({"tenant": "eu"}))

    app.middleware(Watching())
    job = await app.enqueue(chain(tasks.add.call(1), tasks.describe.call()))
    async with app.worker():
        assert await job.result(30) == "it was 2"
    assert sorted(seen) == ["add", "describe"]


async def test_a_middleware_that_refuses_a_call_refuses_the_flow(
    app: Headrace, tasks: Tasks
) -> None:
    class Refusing(Middleware):
        async def send(self, call: Call[Any], send: Send) -> Job[Any]:
            if call.task == "add":
                raise PermissionError("not this one")
            return await send(call)

    app.middleware(Refusing())
    with pytest.raises(PermissionError):
        await app.enqueue(chain(tasks.add.call(1), tasks.describe.call()))
    assert await nothing_is_stored(app)


def test_flows_are_sent_from_code_without_a_loop(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace)

    @app.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    try:
        job = app.enqueue_sync(chain(add.call(1), add.call()))
        assert len(job.jobs) == 2
        assert app.enqueue_sync(add.call(1)).id
    finally:
        app.portal.close()
