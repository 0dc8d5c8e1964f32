"""Priorities: what is more urgent goes first, on every store."""

from __future__ import annotations

import pytest

from headrace import ConfigError, Headrace, Retry, Task


def noting(app: Headrace, order: list[str], priority: int = 0) -> Task[[str], None]:
    @app.task(retry=Retry(2, base=0), priority=priority)
    def note(name: str) -> None:
        order.append(name)
        if name == "again" and order.count(name) == 1:
            raise ConnectionError

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
    note = noting(app, order)
    jobs = await app.enqueue_many(note.call(f"plain {number}") for number in range(20))
    jobs += [
        await note.options(priority=5).enqueue("again"),
        await note.options(priority=9, delay=0.001).enqueue("delayed"),
    ]
    async with app.worker(concurrency=1):
        for job in jobs:
            await job.result(30)
    plain_last = order.index("plain 19")
    assert order.index("delayed") < plain_last
    assert [at for at, name in enumerate(order) if name == "again"][1] < plain_last


@pytest.mark.parametrize("priority", [-1, 101, 5.5, "high"])
async def test_a_priority_is_from_0_to_100(app: Headrace, priority: int) -> None:
    with pytest.raises(ConfigError, match="priority"):
        noting(app, [], priority=priority)
    with pytest.raises(ConfigError, match="priority"):
        noting(app, []).options(priority=priority)
