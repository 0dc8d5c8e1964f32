"""`on_success` is sent before the outcome is written, whatever the task keeps."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from headrace import Context, Headrace, Job, Retry, State, StoreUnavailable
from headrace.worker.consume.settler import Settler
from headrace.worker.consume.success_settler import SuccessSettler, settler_of
from tests.worker.states import reach, until


def half(number: int) -> float:
    return number / 2


async def test_the_result_arrives_also_if_nothing_is_kept(app: Headrace) -> None:
    heard: list[Any] = []

    async def hear(ctx: Context, job: Job[Any], result: Any) -> None:
        heard.append((job.id, result))

    @app.task(result_ttl=0, keep_done=0, on_success=hear)
    async def double(number: int) -> int:
        return number * 2

    @app.task(result_ttl=0, keep_done=0, on_success=hear)
    def nothing(number: int) -> None: ...

    @app.task(batch=2, on_success=hear)
    async def squares(numbers: list[int]) -> list[int]:
        return [number**2 for number in numbers]

    halves = app.task(result_ttl=0, on_success=hear)(half)
    async with app.worker():
        calls = [double.call(4), nothing.call(4), squares.call(4), squares.call(5), halves.call(4)]
        jobs = [await app.enqueue(call) for call in calls]
        await until(lambda: len(heard) == 5)
        await reach([jobs[2]], State.DONE)
        assert dict(heard) == dict(
            zip([job.id for job in jobs], [8, None, 16, 25, 2.0], strict=True)
        )
        assert (await app.store.count("default")).dead == 0


async def test_what_does_not_succeed_calls_nothing(app: Headrace) -> None:
    heard: list[int] = []

    @app.task(retry=Retry(3, backoff=[0.01]), on_success=lambda job, result: heard.append(result))
    async def third_time(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return ctx.attempt

    @app.task(retry=Retry(1), on_success=lambda job, result: heard.append(result))
    async def never() -> int:
        raise ValueError("never")

    async with app.worker():
        bad, good = await never.enqueue(), await third_time.enqueue()
        await reach([bad], State.DEAD)
        assert await good.result(30) == 3
        await until(lambda: heard)
    assert heard == [3]


async def test_a_handler_that_fails_is_retried_and_dies_as_any_job(app: Headrace) -> None:
    tries: list[int] = []

    @app.task(retry=Retry(2, backoff=[0.01]))
    def hear(job_id: str, result: int, ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise ValueError("cannot hear")

    @app.task(on_success=hear)
    async def work() -> int:
        return 1

    async with app.worker():
        job = await work.enqueue()
        assert await job.result(30) == 1
        await until(lambda: len(tries) == 2)
        while not (dead := await app.admin.dead("default")):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert [(each.task, each.reason) for each in dead] == [("hear", "retries_exhausted")]
    assert tries == [1, 2]


async def test_an_outcome_waits_for_the_job_of_its_handler_and_holds_up_no_other(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    gone = asyncio.Event()
    gone.set()
    append = app.store.append

    async def broken(queue: str, parcels: Any, **options: Any) -> Any:
        if gone.is_set() and queue == "reports":
            raise StoreUnavailable("gone")
        return await append(queue, parcels, **options)

    monkeypatch.setattr(app.store, "append", broken)

    @app.task(queue="reports")
    async def hear(job_id: str, result: int) -> None:
        heard.append(result)

    @app.task(on_success=hear)
    async def reported() -> int:
        return 7

    @app.task
    async def plain() -> int:
        return 8

    async with app.worker():
        waits = await reported.enqueue()
        others = [await plain.enqueue() for _ in range(5)]
        assert [await job.result(30) for job in others] == [8] * 5
        assert await waits.status() is State.RUNNING
        gone.clear()
        assert await waits.result(30) == 7
        await until(lambda: heard)
    assert heard == [7]


async def test_a_full_queue_does_not_keep_jobs_from_ending(app: Headrace) -> None:
    app.queue("narrow", max_length=2)
    heard: list[int] = []

    @app.task(queue="narrow", on_success=lambda job, result: heard.append(result))
    async def work(number: int) -> int:
        return number

    jobs = [await work.enqueue(number) for number in range(2)]
    async with app.worker():
        assert [await job.result(30) for job in jobs] == [0, 1]
        await until(lambda: len(heard) == 2)
    assert sorted(heard) == [0, 1]


async def test_an_id_that_is_used_again_is_another_job(app: Headrace) -> None:
    heard: list[int] = []

    @app.task(result_ttl=0, keep_done=0, on_success=lambda job, result: heard.append(result))
    async def work(number: int) -> int:
        return number

    async with app.worker():
        for number in range(3):
            await work.options(id="mine").enqueue(number)
            await until(partial(heard.__contains__, number))
            while any(await app.store.get("default", [b"=mine"])):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    assert heard == [0, 1, 2]


def test_an_app_without_handlers_has_plain_settlers() -> None:
    app = Headrace("memory://")

    @app.task
    async def work() -> None: ...

    assert settler_of(app) is Settler
    app.task(name="reported", on_success=lambda job: None)(half)
    assert settler_of(app).func is SuccessSettler  # type: ignore[attr-defined]
