"""Read this first: sending jobs and getting results, one short test each, on every store."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from headrace import (
    ConfigError,
    Context,
    Headrace,
    JobFailed,
    JobNotFound,
    ResultExpired,
    ResultTimeout,
    Retry,
    State,
    current,
)


@dataclass
class Order:
    number: int
    total: Decimal
    at: datetime


async def test_a_job_is_sent_and_its_result_awaited(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker():
        job = await add.enqueue(2, 3)
        assert await job.result(timeout=30) == 5
        assert await job.status() is State.DONE


async def test_arguments_and_results_arrive_as_what_they_were(app: Headrace) -> None:
    @app.task
    async def doubled(order: Order) -> Order:
        return Order(order.number, order.total * 2, order.at)

    order = Order(7, Decimal("9.95"), datetime(2026, 1, 2, tzinfo=UTC))
    async with app.worker():
        job = await doubled.enqueue(order)
        assert await job.result(30) == Order(7, Decimal("19.90"), order.at)


async def test_a_sync_function_runs_in_a_thread(app: Headrace) -> None:
    @app.task
    def shout(text: str) -> str:
        return text.upper()

    async with app.worker():
        assert await (await shout.enqueue("hello")).result(30) == "HELLO"


async def test_a_task_can_be_called_like_the_function_it_is(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def triple(n: int) -> int:
        return 3 * n

    assert await add(1, 2) == 3
    assert triple(2) == 6


async def test_many_calls_are_sent_together(app: Headrace) -> None:
    @app.task
    async def square(n: int) -> int:
        return n * n

    async with app.worker():
        jobs = await app.enqueue_many(square.call(n) for n in range(1200))
        results = await asyncio.gather(*(job.result(60) for job in jobs))
    assert results == [n * n for n in range(1200)]


async def test_jobs_run_side_by_side(app: Headrace) -> None:
    together = asyncio.Barrier(10)

    @app.task
    async def meet() -> None:
        await together.wait()

    async with app.worker():
        jobs = [await meet.enqueue() for _ in range(10)]
        await asyncio.gather(*(job.result(30) for job in jobs))


async def test_a_delayed_job_starts_not_before_its_time(app: Headrace) -> None:
    started: list[int] = []

    @app.task
    async def note() -> None:
        started.append(await app.store.time_ms())

    before = await app.store.time_ms()
    async with app.worker():
        job = await note.options(delay=0.3).enqueue()
        assert await job.status() is State.SCHEDULED
        await job.result(30)
    assert started[0] >= before + 300


async def test_a_job_can_be_sent_for_a_moment(app: Headrace) -> None:
    @app.task
    async def greet() -> str:
        return "hello"

    moment = datetime.now(UTC) + timedelta(seconds=1)
    job = await greet.options(at=moment).enqueue()
    # Before a worker can take it.
    info = await job.info()
    assert info.due is not None
    assert abs(info.due - moment) < timedelta(seconds=0.01)
    async with app.worker():
        assert await job.result(30) == "hello"


async def test_a_failed_job_is_tried_again(app: Headrace) -> None:
    @app.task(retry=Retry(3, base=0.01))
    async def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ConnectionError("not yet")
        return ctx.attempt

    async with app.worker():
        assert await (await flaky.enqueue()).result(30) == 3


class SoftlyFirst(Retry):
    """A policy of a user: only what is said softly is worth another run, and soon."""

    def retries(self, error: BaseException) -> bool:
        return str(error).islower() and super().retries(error)

    def delay(self, attempt: int, rng: random.Random | None = None) -> float:
        return 0.01 * attempt


async def test_a_task_may_have_a_retry_policy_of_its_own(app: Headrace) -> None:
    @app.task(retry=SoftlyFirst(5, base=3600))
    async def shout(ctx: Context) -> None:
        raise ValueError("not yet" if ctx.attempt < 3 else "NEVER")

    async with app.worker():
        job = await shout.enqueue()
        with pytest.raises(JobFailed) as failed:
            await job.result(30)
    assert (failed.value.error_text, failed.value.reason) == ("NEVER", "not_retryable")
    assert len((await job.info()).attempts) == 3


async def test_a_policy_of_its_own_does_not_travel_with_a_call(app: Headrace) -> None:
    """What travels are the fields of a `Retry`: without its methods it would be another policy."""

    @app.task
    async def shout() -> None: ...

    with pytest.raises(ConfigError, match=r"SoftlyFirst is .*: put it on the task"):
        shout.options(retry=SoftlyFirst(5))
    async with app.worker():
        await (await shout.options(retry=Retry(5)).enqueue()).result(30)


async def test_a_job_that_fails_for_good_is_dead_and_says_why(app: Headrace) -> None:
    @app.task(retry=Retry(2, base=0.01))
    async def broken() -> None:
        raise ValueError("this will never work")

    async with app.worker():
        job = await broken.enqueue()
        with pytest.raises(JobFailed) as failed:
            await job.result(30)
    assert failed.value.error_type == "ValueError"
    assert failed.value.error_text == "this will never work"
    assert "in broken" in failed.value.traceback
    info = await job.info()
    assert (info.state, info.reason) == (State.DEAD, "retries_exhausted")
    assert [attempt.number for attempt in info.attempts] == [1, 2]
    assert all(attempt.started <= attempt.ended for attempt in info.attempts)


async def test_a_dead_job_is_replayed(app: Headrace) -> None:
    fixed = False

    @app.task(retry=Retry(1))
    async def fragile() -> str:
        if not fixed:
            raise RuntimeError("the bug")
        return "fine"

    async with app.worker():
        job = await fragile.enqueue()
        with pytest.raises(JobFailed):
            await job.result(30)
        fixed = True
        assert await app.admin.replay([job.id]) == 1
        assert await job.result(30) == "fine"
        assert await app.admin.replay([job.id]) == 0


async def test_a_job_is_found_again_by_its_id(app: Headrace) -> None:
    @app.task(queue="elsewhere")
    async def add(a: int, b: int) -> int:
        return a + b

    job = await add.enqueue(2, 2)
    again = app.job(job.id)
    assert await again.status() is State.WAITING
    async with app.worker():
        assert await again.result(30) == 4
    with pytest.raises(JobNotFound):
        await app.job("nobody").status()


async def test_an_id_of_ones_own_is_used_once(app: Headrace) -> None:
    runs: list[int] = []

    @app.task
    async def charge(amount: int) -> None:
        runs.append(amount)

    first = await charge.options(id="order-7").enqueue(10)
    second = await charge.options(id="order-7").enqueue(10)
    assert first.id == second.id == "order-7"
    async with app.worker():
        await first.result(30)
        await (await charge.options(id="order-7").enqueue(10)).result(30)
    assert runs == [10]


async def test_an_expired_job_is_not_run(app: Headrace) -> None:
    @app.task
    async def greet() -> None: ...

    job = await greet.options(expires=0.05).enqueue()
    await asyncio.sleep(0.1)
    async with app.worker():
        with pytest.raises(JobFailed) as failed:
            await job.result(30)
    assert failed.value.reason == "expired"


async def test_waiting_for_a_result_ends_when_the_caller_wants(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    job = await add.enqueue(1, 2)
    with pytest.raises(ResultTimeout):
        await job.result(0.05)


async def test_a_result_that_is_not_kept_cannot_be_had(app: Headrace) -> None:
    @app.task(result_ttl=0)
    async def quick() -> int:
        return 1

    async with app.worker():
        job = await quick.enqueue()
        with pytest.raises(ResultExpired):
            await job.result(30)


async def test_a_task_knows_its_own_run(app: Headrace) -> None:
    @app.task
    async def who(ctx: Context, word: str) -> list[str]:
        assert current() is ctx
        assert ctx.deadline is not None
        return [ctx.job.id, word, str(ctx.attempt), str(ctx.fence), ctx.headers["tenant"]]

    async with app.worker() as worker:
        job = await who.options(headers={"tenant": "eu"}).enqueue("hi")
        assert await job.result(30) == [job.id, "hi", "1", "1", "eu"]
        assert worker.name


async def test_code_without_an_event_loop_sends_and_waits_too(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    def script() -> int:
        job = add.enqueue_sync(3, 4)
        return job.result_sync(30)

    async with app.worker():
        assert await asyncio.to_thread(script) == 7
    await asyncio.to_thread(app.portal.close)
