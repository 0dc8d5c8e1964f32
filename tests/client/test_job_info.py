"""`job.info()`: what is known of a job in each state, and the same for people."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headrace import Headrace, JobFailed, JobInfo, Retry, State, chain


class Yard:
    """Tasks that wait until they are let go, or fail."""

    def __init__(self, app: Headrace) -> None:
        self.go = asyncio.Event()

        @app.task(retry=Retry(2, base=0.01))
        async def fail(number: int) -> int:
            raise ValueError(number)

        @app.task(queue="later")
        async def hold(number: int, text: str = "x") -> int:
            await self.go.wait()
            return number

        self.fail, self.hold = fail, hold


@pytest.fixture
def yard(app: Headrace) -> Yard:
    return Yard(app)


async def test_a_dead_job_says_when_and_where_it_ended(app: Headrace, yard: Yard) -> None:
    async with app.worker() as worker:
        job = await yard.fail.enqueue(3)
        with pytest.raises(JobFailed):
            await job.result(timeout=20)
        info = await job.info()
        detail = await app.admin.job(job.id)
    last = info.attempts[-1]
    assert info.state is State.DEAD
    assert info.worker == worker.name == last.worker
    assert info.started == last.started
    assert info.took == pytest.approx((last.ended - last.started).total_seconds())
    assert info.ended is not None
    assert timedelta(seconds=-1) < info.ended - last.ended < timedelta(seconds=20)
    assert info.arguments == {"number": 3}
    assert info.cause is None
    assert (detail.worker, detail.started, detail.took) == (info.worker, info.started, info.took)


async def test_a_job_that_died_with_another_says_which_failed_first(
    app: Headrace, yard: Yard
) -> None:
    flow = await app.enqueue(chain(yard.fail.call(1), yard.hold.call()))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
    info = await flow.info()
    assert (info.reason, info.cause) == ("parent_failed", flow.jobs[0].id)
    assert info.ended is not None
    assert (info.worker, info.started, info.took) == (None, None, None)


async def test_arguments_are_known_in_every_state(app: Headrace, yard: Yard) -> None:
    waiting = await yard.hold.enqueue(1, "a")
    scheduled = await yard.hold.options(delay=60).enqueue(2)
    cancelled = await yard.hold.options(delay=60).enqueue(3)
    assert await cancelled.cancel()

    async def seen() -> list[tuple[State, object]]:
        infos = [await job.info() for job in (waiting, scheduled, cancelled)]
        return [(info.state, info.arguments) for info in infos]

    assert await seen() == [
        (State.WAITING, {"number": 1, "text": "a"}),
        (State.SCHEDULED, {"number": 2}),
        (State.CANCELLED, {"number": 3}),
    ]
    yard.go.set()
    async with app.worker():
        await waiting.result(timeout=20)
    assert (await seen())[0] == (State.DONE, {"number": 1, "text": "a"})


async def test_a_running_job_says_since_when(app: Headrace, yard: Yard) -> None:
    async def until_reported() -> JobInfo:
        async with asyncio.timeout(20):
            while (info := await job.info()).started is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return info

    async with app.worker():
        job = await yard.hold.enqueue(1)
        info = await until_reported()
        detail, why = await app.admin.job(job.id), await app.admin.why(job.id)
        yard.go.set()
        await job.result(timeout=20)
    assert info.state is State.RUNNING
    assert info.sent is not None
    assert info.started is not None
    assert info.started >= info.sent - timedelta(seconds=1)
    assert detail.started is not None
    assert f", attempt 1, since {detail.started:%Y-%m-%d %H:%M}" in why
    done = await job.info()
    assert done.started is not None
    assert abs(done.started - info.started) < timedelta(seconds=10)
