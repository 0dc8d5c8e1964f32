"""A clock that is moved is noticed at once by workers that run on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from headrace import Context, Headrace, Retry
from headrace.testing import ManualClock
from headrace.worker import service


@dataclass
class Paid:
    order: str


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Headrace]:
    # Nothing that the test waits for comes from a look at the clock now and then.
    monkeypatch.setattr(service, "POLL", 3600.0)
    async with Headrace("memory://", clock=clock) as app:
        yield app


async def test_a_running_worker_notices_a_moved_clock(app: Headrace, clock: ManualClock) -> None:
    seen: list[str] = []
    came = asyncio.Event()

    @app.task(retry=Retry(2, backoff=[3600], jitter=False))
    async def work(ctx: Context, name: str) -> None:
        seen.append(f"{name} {ctx.attempt}")
        came.set()
        if name == "fails" and ctx.attempt == 1:
            raise ValueError("once")

    @app.cron("0 9 * * *")
    async def daily(ctx: Context) -> None:
        seen.append(ctx.job.id)
        came.set()

    async def until(expected: list[str]) -> None:
        async with asyncio.timeout(30):
            while seen != expected:
                await came.wait()
                came.clear()
        seen.clear()

    await work.options(delay=60).enqueue("later")
    await work.enqueue("fails")
    gone = app.store.consumer("gone", ["lost"], app.lease)
    await work.options(queue="lost").enqueue("lost")
    assert len(await gone.fetch(1, 0)) == 1
    async with app.worker(queues=["default", "lost"]):
        await until(["fails 1"])
        clock.advance(60)
        async with asyncio.timeout(30):
            while len(seen) < 2:
                await came.wait()
                came.clear()
            while (await app.admin.queue("default")).scheduled != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        # The worker of one job is gone, and its lease is over now.
        assert sorted(seen) == ["later 1", "lost 1"]
        seen.clear()
        clock.advance(hours=1)
        await until(["fails 2"])
        clock.move_to(clock.now().replace(hour=8))
        clock.advance(days=3)
        await until([f"daily@2026-01-0{day}T09:00:00Z" for day in (1, 2, 3)])


async def test_what_runs_is_not_taken_from_its_worker(app: Headrace, clock: ManualClock) -> None:
    began, go_on, runs = asyncio.Event(), asyncio.Event(), list[int]()

    @app.task
    async def long(ctx: Context) -> str:
        runs.append(ctx.fence)
        began.set()
        await go_on.wait()
        return "done"

    @app.task
    async def other() -> str:
        return "other"

    job = await long.enqueue()
    async with app.worker(), app.worker():
        await began.wait()
        clock.advance(days=1)
        # Both have looked for jobs by the time that this one is done.
        assert await (await other.enqueue()).result(30) == "other"
        clock.advance(days=1)
        assert await (await other.enqueue()).result(30) == "other"
        go_on.set()
        assert await job.result(30) == "done"
    assert runs == [1]


async def test_ticks_before_a_worker_came_are_missed(app: Headrace, clock: ManualClock) -> None:
    seen: list[str] = []

    @app.every(3600)
    async def hourly(ctx: Context) -> None:
        seen.append(ctx.job.id)

    async with app.worker():
        async with asyncio.timeout(30):
            while not await app.store.kv_all("schedules"):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    clock.advance(hours=5, minutes=30)
    async with app.worker():
        clock.advance(minutes=40)
        async with asyncio.timeout(30):
            while not seen:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert seen == ["hourly@2026-01-01T06:00:00Z"]
