"""Keys: jobs of one key run in order and not at the same time, on every store."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from headrace import ConfigError, Headrace, JobFailed, Retry


async def test_jobs_of_one_key_run_one_after_the_other_in_order(app: Headrace) -> None:
    order: defaultdict[str, list[int]] = defaultdict(list)
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    @app.task
    async def step(customer: str, number: int) -> None:
        running[customer] += 1
        most[customer] = max(most[customer], running[customer])
        await asyncio.sleep(0.001)
        order[customer].append(number)
        running[customer] -= 1

    calls = [
        step.options(key=customer).call(customer, number)
        for number in range(30)
        for customer in "abc"
    ]
    jobs = await app.enqueue_many(calls)
    async with app.worker(), app.worker():
        for job in jobs:
            await job.result(30)
    assert dict(order) == {customer: list(range(30)) for customer in "abc"}
    assert set(most.values()) == {1}


async def test_a_retry_keeps_its_place(app: Headrace) -> None:
    order: list[int] = []

    @app.task(retry=Retry(3, base=0.05, jitter=False))
    async def step(number: int) -> None:
        order.append(number)
        if number == 0 and len(order) < 3:
            raise ConnectionError

    jobs = [await step.options(key="one").enqueue(number) for number in range(3)]
    async with app.worker():
        for job in jobs:
            await job.result(30)
    assert order == [0, 0, 0, 1, 2]


async def test_a_task_can_have_a_limit_of_its_own(app: Headrace) -> None:
    running, most, full = 0, 0, asyncio.Event()

    @app.task(concurrency=3)
    async def work(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0.001)
        running -= 1

    jobs = await app.enqueue_many(work.call(number) for number in range(12))
    async with app.worker(), app.worker():
        for job in jobs:
            await job.result(30)
    assert most == 3


async def test_a_key_can_be_as_wide_as_its_task_says(app: Headrace) -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    both = {"a": asyncio.Event(), "b": asyncio.Event()}

    @app.task(concurrency=2)
    async def work(key: str) -> None:
        running[key] += 1
        most[key] = max(most[key], running[key])
        if running[key] == 2:
            both[key].set()
        await both[key].wait()
        running[key] -= 1

    jobs = await app.enqueue_many(work.options(key=key).call(key) for key in "abababab")
    async with app.worker():
        for job in jobs:
            await job.result(30)
    assert most == {"a": 2, "b": 2}


async def test_a_key_holds_up_no_other(app: Headrace) -> None:
    go_on = asyncio.Event()

    @app.task
    async def work(key: str) -> str:
        if key == "slow":
            await go_on.wait()
        return key

    held = await app.enqueue_many(work.options(key="slow").call("slow") for _ in range(50))
    free = await work.options(key="fast").enqueue("fast")
    async with app.worker(concurrency=2):
        assert await free.result(30) == "fast"
        go_on.set()
        for job in held:
            assert await job.result(30) == "slow"


@pytest.mark.parametrize("key", ["", "x" * 257, "a\x00b", None, 7])
async def test_a_bad_key_is_refused(app: Headrace, key: str) -> None:
    @app.task
    async def work() -> None: ...

    with pytest.raises(ConfigError, match="key"):
        work.options(key=key)


async def test_dead_jobs_of_a_key_are_replayed_in_the_order_in_which_they_died(
    app: Headrace,
) -> None:
    ran: list[int] = []
    broken = True

    @app.task(concurrency=1, retry=Retry(1))
    async def note(number: int) -> None:
        if broken:
            raise ConnectionError
        ran.append(number)

    async with app.worker():
        jobs = await app.enqueue_many(note.options(key="a").call(number) for number in range(6))
        for job in jobs:
            with pytest.raises(JobFailed):
                await job.result(30)
        broken = False
        assert await app.admin.replay(queue="default") == 6
        for job in jobs:
            await job.result(30)
    assert ran == list(range(6))
