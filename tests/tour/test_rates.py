"""Rates: no more starts than allowed in any window, on every store."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

import pytest

from headrace import ConfigError, Headrace, State
from tests.worker.states import reach

# The store counts a start; the function notes it a moment later, on a busy machine a longer one.
SECOND = 0.7


def spans(starts: list[float], count: int) -> list[float]:
    """How long each `count` starts and the one after them took."""
    starts = sorted(starts)
    return [after - first for first, after in zip(starts, starts[count:], strict=False)]


async def test_a_rate_holds_in_any_window_for_all_workers(app: Headrace) -> None:
    starts: list[float] = []

    @app.task(rate="10/s")
    async def work() -> None:
        starts.append(time.monotonic())

    jobs = await app.enqueue_many(work.call() for _ in range(25))
    async with app.worker(), app.worker():
        await asyncio.gather(*(job.result(30) for job in jobs))
    assert len(starts) == 25
    assert min(spans(starts, 10)) >= SECOND


async def test_each_rate_key_has_a_rate_of_its_own(app: Headrace) -> None:
    starts: defaultdict[str, list[float]] = defaultdict(list)

    @app.task(rate="2/s", rate_key=lambda tenant: tenant)
    async def work(tenant: str) -> None:
        starts[tenant].append(time.monotonic())

    calls = [work.call(tenant) for tenant in ("a", "b", "c") for _ in range(3)]
    calls += [work.options(rate_key="d").call("a") for _ in range(2)]
    jobs = await app.enqueue_many(calls)
    async with app.worker():
        await asyncio.gather(*(job.result(30) for job in jobs))
    assert all(min(spans(starts[tenant], 2)) >= SECOND for tenant in "bc")
    assert len(starts["a"]) == 5


async def test_a_burst_goes_at_once_and_no_more(app: Headrace) -> None:
    @app.task(rate="60/h", burst=3)
    async def work() -> None: ...

    jobs = await app.enqueue_many(work.call() for _ in range(8))
    async with app.worker():
        states = await reach(jobs, State.DONE, State.BLOCKED)
    # The fourth would come a minute later.
    assert states.count(State.DONE) == 3


async def test_after_a_burst_the_others_come_evenly(app: Headrace) -> None:
    starts: list[float] = []

    @app.task(rate="20/s", burst=2)
    async def work() -> None:
        starts.append(time.monotonic())

    jobs = await app.enqueue_many(work.call() for _ in range(8))
    before = time.monotonic()
    async with app.worker():
        await asyncio.gather(*(job.result(30) for job in jobs))
    assert len(starts) == 8
    # Six of the eight come after the burst, a twentieth of a second apart; stores count in
    # milliseconds.
    assert max(starts) - before >= 6 * 0.049


async def test_a_queue_has_a_rate_for_all_its_tasks(app: Headrace) -> None:
    starts: list[float] = []
    app.queue("mail", rate="5/s")

    @app.task(queue="mail")
    async def send() -> None:
        starts.append(time.monotonic())

    @app.task
    async def call() -> None:
        starts.append(time.monotonic())

    calls = [send.call() for _ in range(6)] + [call.options(queue="mail").call() for _ in range(6)]
    jobs = await app.enqueue_many(calls)
    async with app.worker(queues=["mail"]):
        await asyncio.gather(*(job.result(30) for job in jobs))
    assert min(spans(starts, 5)) >= SECOND


async def test_a_limited_job_waits_in_the_store(app: Headrace) -> None:
    ran = asyncio.Event()

    @app.task(rate="1/h")
    async def work() -> None:
        ran.set()

    @app.task
    async def free() -> str:
        return "free"

    await app.enqueue_many(work.call() for _ in range(50))
    async with app.worker(concurrency=2):
        await ran.wait()
        assert await (await free.enqueue()).result(30) == "free"


@pytest.mark.parametrize("rate", ["", "often", "0/s", "5/week", 5])
async def test_a_bad_rate_is_refused(app: Headrace, rate: str) -> None:
    with pytest.raises(ConfigError, match="rate"):
        app.task(rate=rate)(test_a_bad_rate_is_refused)
    with pytest.raises(ConfigError, match="'mail': rate"):
        app.queue("mail", rate=rate)
