"""`on_success` and `on_dead` of tasks, on every store."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from headrace import Context, Headrace, Job, JobFailed, Reject
from tests.worker.states import until


async def test_a_job_that_is_done_calls_on_success_with_its_result(app: Headrace) -> None:
    heard: list[tuple[str, int]] = []

    async def thank(job: Job[int], paid: int) -> None:
        heard.append((job.id, paid))

    @app.task(on_success=thank)
    async def pay(cents: int) -> int:
        return cents * 2

    async with app.worker():
        job = await pay.enqueue(21)
        await until(lambda: heard)
    assert heard == [(job.id, 42)]
    assert app.tasks["pay.on_success"].declared.queue == pay.declared.queue


# At the top level, as tasks that another process must import have to be.
processes = Headrace("memory://")


@processes.task(run_in="process", result_ttl=0)
def charged(cents: int) -> list[int]:
    return [cents, 1]


@pytest.mark.parametrize("run_in", ["thread", "process"])
async def test_on_success_has_the_result_of_a_job_that_keeps_none(
    app: Headrace, run_in: Literal["thread", "process"]
) -> None:
    heard: list[tuple[str, list[int]]] = []

    async def thank(job: Job[list[int]], paid: list[int]) -> None:
        heard.append((job.id, paid))

    charge = app.task(run_in=run_in, result_ttl=0, on_success=thank)(charged.function)
    async with app.worker(processes=1):
        job = await charge.enqueue(21)
        await until(lambda: heard)
    assert heard == [(job.id, [21, 1])]


async def test_a_job_that_is_dead_calls_on_dead_with_its_failure(app: Headrace) -> None:
    heard: list[tuple[str, str, str, str | None]] = []

    def excuse(job: Job[Any], failure: JobFailed, ctx: Context) -> None:
        heard.append((job.id, failure.reason, failure.error_text, failure.task))
        assert ctx.attempt == 1

    @app.task(on_dead=excuse)
    async def pay(cents: int) -> int:
        raise Reject(f"{cents} is too much")

    async with app.worker():
        job = await pay.enqueue(21)
        await until(lambda: heard)
    assert heard == [(job.id, "rejected", "21 is too much", "pay")]
    assert (await app.store.count("default")).dead == 1


async def test_handlers_can_be_tasks_with_a_policy_of_their_own(app: Headrace) -> None:
    heard: list[object] = []

    @app.task(queue="mail")
    async def thank(job_id: str, paid: int) -> None:
        heard.append((job_id, paid))

    @app.task(queue="mail")
    def excuse(job_id: str) -> None:
        heard.append(job_id)

    @app.task(on_success=thank, on_dead=excuse)
    async def pay(cents: int) -> int:
        if not cents:
            raise Reject("nothing")
        return cents

    async with app.worker():
        good, bad = await asyncio.gather(pay.enqueue(1), pay.enqueue(0))
        await until(lambda: len(heard) == 2)
    assert (good.id, 1) in heard
    assert bad.id in heard
