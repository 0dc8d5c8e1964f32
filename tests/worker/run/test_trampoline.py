"""Trampoline: few asyncio tasks for many runs, and none shared with a function that waits."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from headrace import Headrace, JobFailed, Retry

colour: ContextVar[str] = ContextVar("colour", default="none")


def my_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_functions_that_do_not_wait_share_a_task(app: Headrace) -> None:
    used: list[asyncio.Task[object]] = []

    @app.task
    async def quick(number: int) -> None:
        used.append(my_task())

    jobs = await app.enqueue_many(quick.call(number) for number in range(40))
    async with app.worker():
        for job in jobs:
            await job.result(30)
    assert len(set(used)) < len(used)


async def test_functions_that_wait_have_tasks_of_their_own(app: Headrace) -> None:
    used: list[asyncio.Task[object]] = []
    all_here = asyncio.Event()

    @app.task
    async def slow(number: int) -> bool:
        before = my_task()
        used.append(before)
        if len(used) == 40:
            all_here.set()
        await all_here.wait()
        return my_task() is before

    jobs = await app.enqueue_many(slow.call(number) for number in range(40))
    async with app.worker():
        assert all([await job.result(30) for job in jobs])
    assert len(set(used)) == 40


async def test_what_one_job_sets_in_its_context_no_other_sees(app: Headrace) -> None:
    seen: list[str] = []

    @app.task
    async def paint(number: int) -> None:
        seen.append(colour.get())
        colour.set(f"colour {number}")
        if number % 2:
            await asyncio.sleep(0)
            assert colour.get() == f"colour {number}"

    jobs = await app.enqueue_many(paint.call(number) for number in range(30))
    async with app.worker():
        for job in jobs:
            await job.result(30)
    assert set(seen) == {"none"}


async def test_a_job_that_cancels_its_task_hits_no_other(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def rash(number: int) -> int:
        if number == 3:
            my_task().cancel()
        elif number > 3:
            await asyncio.sleep(0.001)
        return number

    jobs = await app.enqueue_many(rash.call(number) for number in range(10))
    async with app.worker():
        results = [await job.result(30) for job in jobs]
    assert results == list(range(10))


async def test_a_timeout_in_a_function_is_its_own(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def impatient(number: int) -> str:
        try:
            async with asyncio.timeout(0.01 if number == 5 else None):
                await (asyncio.sleep(30) if number == 5 else asyncio.sleep(0))
        except TimeoutError:
            return "too late"
        return "in time"

    jobs = await app.enqueue_many(impatient.call(number) for number in range(10))
    async with app.worker():
        results = [await job.result(30) for job in jobs]
    assert results == ["in time"] * 5 + ["too late"] + ["in time"] * 4


async def test_a_function_that_fails_at_once_ends_no_other(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def odd(number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number

    jobs = await app.enqueue_many(odd.call(number) for number in range(20))
    failed = 0
    async with app.worker():
        for job in jobs:
            try:
                await job.result(30)
            except JobFailed:
                failed += 1
    assert failed == 10
