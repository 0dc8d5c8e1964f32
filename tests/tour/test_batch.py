"""Batch tasks: the function takes a list, each job has its own end. On every store."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace import BatchError, Context, Headrace, JobFailed, Retry, State


async def test_jobs_of_a_batch_task_run_as_one(app: Headrace) -> None:
    batches: list[list[int]] = []

    @app.task(batch=10, max_wait=60)
    async def load(rows: list[int]) -> None:
        batches.append(rows)

    async with app.worker():
        jobs = await app.enqueue_many(load.call(number) for number in range(20))
        for job in jobs:
            await job.result(30)
    assert batches == [list(range(10)), list(range(10, 20))]


async def test_a_batch_does_not_wait_for_ever(app: Headrace) -> None:
    @app.task(batch=1000, max_wait=0.05)
    def count(rows: list[str]) -> list[int]:
        return [len(rows) for _ in rows]

    jobs = await app.enqueue_many(count.call(text) for text in "abc")
    async with app.worker():
        assert [await job.result(30) for job in jobs] == [3, 3, 3]


async def test_each_job_of_a_batch_has_its_own_result(app: Headrace) -> None:
    @app.task(batch=3, max_wait=60)
    async def squares(numbers: list[int]) -> list[int]:
        return [number * number for number in numbers]

    async with app.worker():
        jobs = await asyncio.gather(*(squares.enqueue(number) for number in (2, 3, 4)))
        assert [await job.result(30) for job in jobs] == [4, 9, 16]


async def test_one_job_of_a_batch_fails_alone(app: Headrace) -> None:
    @app.task(batch=3, max_wait=60, retry=Retry(1))
    async def check(numbers: list[int]) -> list[int | Exception]:
        return [n if n > 0 else ValueError(f"{n} is too small") for n in numbers]

    async with app.worker():
        good, bad, fine = await app.enqueue_many(check.call(number) for number in (1, -1, 2))
        with pytest.raises(JobFailed, match="-1 is too small"):
            await bad.result(30)
        assert (await good.result(30), await fine.result(30)) == (1, 2)


async def test_a_batch_error_names_those_that_failed(app: Headrace) -> None:
    seen: list[list[str]] = []

    @app.task(batch=2, max_wait=0.05, retry=Retry(2, base=0.01))
    def send(ctx: Context, mails: list[str]) -> None:
        seen.append(mails)
        if "broken" in mails and ctx.attempt == 1:
            raise BatchError({mails.index("broken"): ConnectionError("no route")})

    async with app.worker():
        fine, broken = await app.enqueue_many([send.call("fine"), send.call("broken")])
        await fine.result(30)
        await broken.result(30)
        assert await broken.status() is State.DONE
    # Only the one that failed came again.
    assert seen == [["fine", "broken"], ["broken"]]


async def test_jobs_that_a_worker_hands_back_come_in_order_to_the_next(app: Headrace) -> None:
    seen: list[int] = []
    begun, over = threading.Event(), threading.Event()

    @app.task(batch=4, max_wait=0.05)
    def store(rows: list[int]) -> None:
        seen.extend(rows)
        begun.set()
        over.wait(60)

    jobs = await app.enqueue_many(store.call(row) for row in range(30))
    async with app.worker(concurrency=10, threads=1):
        await asyncio.to_thread(begun.wait, 60)
        # It stops while the first batch runs, and others have gathered behind it.
        asyncio.get_running_loop().call_later(0.1, over.set)
    assert 0 < len(seen) < 30
    async with app.worker(concurrency=10, threads=1):
        for job in jobs:
            await job.result(60)
    assert seen == list(range(30))
