"""Priorities: what is more urgent goes first, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Job, Retry, State, Task


def noting(app: Headrace, order: list[str], priority: int = 0) -> Task[[str], None]:
    @app.task(priority=priority)
    def note(name: str) -> None:
        order.append(name)

    return note


async def test_higher_goes_first_and_equal_in_order(app: Headrace) -> None:
    order: list[str] = []
    note = noting(app, order, priority=10)
    jobs = [
        await note.options(priority=number).enqueue(name)
        for number, name in [(0, "low"), (50, "mid"), (100, "top"), (50, "mid too"), (0, "low too")]
    ]
    jobs.append(await note.enqueue("declared"))
    async with app.worker(concurrency=1):
        for job in jobs:
            await job.result(30)
    assert order == ["top", "mid", "mid too", "declared", "low", "low too"]


async def test_a_priority_is_kept_through_delay_and_retry(app: Headrace) -> None:
    order: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task(retry=Retry(2, base=0.5, jitter=False))
    async def note(name: str) -> None:
        order.append(name)
        if name == "again" and order.count(name) == 1:
            begun.set()
            await go_on.wait()
            raise ConnectionError

    async with app.worker(concurrency=1) as worker:
        again = await note.options(priority=5).enqueue("again")
        await begun.wait()
        # The second attempt is for another worker, and begins when this one reads no more: what it
        # had read and handed back would go first.
        worker.stop()
        go_on.set()
    plain = await app.enqueue_many(note.call(f"plain {number}") for number in range(3))
    delayed = await note.options(priority=9, delay=0.001).enqueue("delayed")
    await promoted(app, [again, delayed])
    async with app.worker(concurrency=1):
        for job in plain:
            await job.result(30)
    assert order == ["again", "delayed", "again", "plain 0", "plain 1", "plain 2"]


async def promoted(app: Headrace, jobs: Sequence[Job[Any]]) -> None:
    """Have the jobs wait in line, without running them."""
    consumer = app.store.consumer("promoter", ["default"], app.lease)
    while {await job.status() for job in jobs} != {State.WAITING}:
        await consumer.promote("default")
        await asyncio.sleep(0.005)
    await consumer.close()


@pytest.mark.parametrize("priority", [-1, 101, 5.5, "high"])
async def test_a_priority_is_from_0_to_100(app: Headrace, priority: int) -> None:
    with pytest.raises(ConfigError, match="priority"):
        noting(app, [], priority=priority)
    with pytest.raises(ConfigError, match="priority"):
        noting(app, []).options(priority=priority)
