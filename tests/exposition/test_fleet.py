"""Counters of all workers, from what the store has counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

import pytest

from headrace import Headrace
from headrace.admin import Admin, MinuteStats
from headrace.exposition import prometheus, store_families
from headrace.exposition.store_families import FleetCounters
from tests.exposition.scraping import Scrape


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_families, "_MAX_AGE", 0.0)


async def scrape(app: Headrace) -> Scrape:
    return Scrape((await prometheus.fleet_metrics(app)).body.decode())


async def test_counters_begin_at_zero_and_grow_by_what_workers_have_done(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async def run(count: int) -> None:
        async with app.worker():
            for job in await app.enqueue_many([add.call(i, i) for i in range(count)]):
                await job.result(30)

    await run(2)
    assert (await scrape(app)).total("headrace_fleet_jobs_total") == 0
    await run(3)
    await run(4)
    found = await scrape(app)
    labels = {"queue": "default", "task": "add"}
    assert found.value("headrace_fleet_jobs_total", outcome="done", **labels) == 7
    assert found.value("headrace_fleet_sent_total", **labels) == 7
    assert found.value("headrace_fleet_run_seconds_count", **labels) == 7
    assert found.value("headrace_fleet_wait_seconds_count", **labels) == 7
    assert (await scrape(app)).total("headrace_fleet_jobs_total", outcome="done") == 7
    assert found.value("headrace_fleet_jobs_running") == 0


async def test_what_the_store_forgets_is_not_taken_back() -> None:
    app, emptied = Headrace("memory://"), Headrace("memory://")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    fleet = FleetCounters()
    async with app, emptied:
        await fleet.update(app.admin)
        async with app.worker():
            await (await add.enqueue(1, 2)).result(30)
        await fleet.update(app.admin)
        assert fleet.counts["default"]["add"]["done"] == 1
        await fleet.update(emptied.admin)
        assert fleet.counts["default"]["add"]["done"] == 1


class Counted:
    """Stands for an admin and what the store has counted; answers can be held back."""

    def __init__(self) -> None:
        self.minutes: dict[int, int] = {}
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def stats(self, minutes: int) -> Sequence[MinuteStats]:
        found = [
            MinuteStats(datetime(2030, 1, 1, 0, minute, tzinfo=UTC), "default", "add", {"done": n})
            for minute, n in self.minutes.items()
        ]
        await self.may_answer.wait()
        return found


async def test_a_reader_that_was_overtaken_has_nothing_counted_twice() -> None:
    counted, fleet = Counted(), FleetCounters()
    admin = cast(Admin, counted)
    await fleet.update(admin)
    counted.minutes = {0: 1}
    counted.may_answer.clear()
    slow = asyncio.create_task(fleet.update(admin))
    await asyncio.sleep(0)
    counted.minutes[1] = 10
    counted.may_answer.set()
    await fleet.update(admin)
    await slow
    await fleet.update(admin)
    assert fleet.counts["default"]["add"]["done"] == 11
