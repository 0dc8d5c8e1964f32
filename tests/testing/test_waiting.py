"""In a test, a sender that waits for room hears that nobody makes any."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Task
from headrace.testing.drain import waiting

FULL = (
    r"nothing runs jobs in a test: queue 'slow' is full and overflow='block' waits for room; "
    r"call headrace.drain\(\) before sending more"
)


def slow_task(app: Headrace) -> Task[[int], Coroutine[Any, Any, int]]:
    app.queue("slow", max_length=2, overflow="block")

    @app.task(queue="slow")
    async def work(n: int) -> int:
        return n

    return work


async def test_a_send_for_which_nothing_makes_room_ends(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_TURN", 0.001)
    work = slow_task(app)
    with app.testing() as headrace:
        async with asyncio.timeout(20):
            with pytest.raises(ConfigError, match=FULL):
                await app.enqueue_many([work.call(n) for n in range(3)])
            with pytest.raises(ConfigError, match=FULL):
                await asyncio.to_thread(work.enqueue_sync, 3)
        assert len(headrace.sent(work)) == 2
        assert await headrace.drain() == 2
        assert await headrace.drain() == 0
        await work.enqueue(4)


async def test_a_send_waits_for_a_drain_that_comes(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_TURN", 0.001)
    work = slow_task(app)
    monkeypatch.setattr(waiting, "_TURNS", 1_000_000)
    with app.testing() as headrace:
        sending = asyncio.create_task(app.enqueue_many([work.call(n) for n in range(5)]))
        await asyncio.sleep(0.05)
        assert not sending.done()
        async with app.worker():
            jobs = await sending
            assert [await job.result(20) for job in jobs] == list(range(5))
        assert len(headrace.sent(work)) == 5
