"""Schedules: jobs at their time, once for the whole fleet; one short test each, on every store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from headrace import (
    ConfigError,
    Context,
    Headrace,
    Retry,
    Schedule,
    ScheduleNotFound,
    State,
    Task,
)
from headrace.core.job import ids


class Runs:
    """What the tasks of a test have done."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._news = asyncio.Event()

    def add(self, text: str) -> None:
        self.seen.append(text)
        self._news.set()

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(60):
            while len(self.seen) < count:
                self._news.clear()
                await self._news.wait()
        return self.seen


@pytest.fixture
def runs() -> Runs:
    return Runs()


async def test_a_function_runs_every_so_many_seconds(app: Headrace, runs: Runs) -> None:
    @app.every(0.1)
    async def beat(ctx: Context) -> None:
        runs.add(ctx.job.id)

    async with app.worker():
        seen = await runs.until(3)
    assert all(id.startswith("beat@20") for id in seen)
    assert len(set(seen)) == len(seen)


async def test_a_function_runs_at_the_times_of_a_cron_expression(app: Headrace, runs: Runs) -> None:
    @app.cron("* * * * * *", timezone="Europe/Berlin", queue="reports", retry=Retry(1))
    def report() -> None:
        runs.add("made")

    async with app.worker():
        await runs.until(1)
        (schedule,) = await app.schedules.list()
    assert (schedule.name, schedule.task, schedule.queue) == ("report", "report", "reports")
    assert (schedule.cron, schedule.timezone) == ("* * * * * *", "Europe/Berlin")
    assert schedule.fired >= 1


async def test_one_task_can_have_several_schedules_and_arguments(app: Headrace, runs: Runs) -> None:
    @app.every(0.1, name="greet-b", args=["b"])
    @app.every(0.1, name="greet-a", kwargs={"name": "a"})
    @app.task
    async def greet(name: str) -> None:
        runs.add(name)

    assert isinstance(greet, Task)
    async with app.worker():
        while {"a", "b"} - set(runs.seen):
            await runs.until(len(runs.seen) + 1)


async def test_several_workers_run_each_tick_once(app: Headrace, runs: Runs) -> None:
    @app.every(0.1, missed="all")
    async def beat(ctx: Context) -> None:
        runs.add(ctx.job.id)

    async with app.worker(), app.worker(), app.worker():
        await runs.until(10)
    left = await app.store.browse("default", State.WAITING)
    jobs = runs.seen + [ids.to_text(job_id) for job_id in left.job_ids]
    assert len(set(jobs)) == len(jobs)
    times = sorted(datetime.fromisoformat(id.removeprefix("beat@")) for id in jobs)
    assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(seconds=0.1)}


async def test_a_schedule_is_made_at_run_time_and_reaches_running_workers(
    app: Headrace, runs: Runs
) -> None:
    @app.task
    async def remind(who: str) -> None:
        runs.add(who)

    async with app.worker():
        made = await app.schedules.upsert("remind-ann", remind.call("Ann"), every=0.1)
        assert (made.name, made.every, made.fired) == ("remind-ann", 0.1, 0)
        assert (await runs.until(2))[:2] == ["Ann", "Ann"]
        await app.schedules.remove("remind-ann")
    assert await app.schedules.list() == []


async def test_a_schedule_can_be_run_now(app: Headrace) -> None:
    @app.cron("@yearly")
    async def close_books() -> str:
        return "closed"

    async with app.worker():
        # Before its worker has declared it, it runs too, but nobody notes that.
        while "close_books" not in await app.schedules.records():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        job = await app.schedules.run_now("close_books")
        assert await job.result(30) == "closed"
    schedule = await app.schedules.get("close_books")
    assert (schedule.fired, schedule.last_tick) == (0, None)
    (run,) = (await app.admin.schedule_runs(["close_books"]))["close_books"].runs
    assert (run.id, run.state, run.manual) == (job.id, State.DONE, True)


async def test_a_schedule_can_be_paused_and_resumed(app: Headrace, runs: Runs) -> None:
    @app.every(0.1)
    async def beat() -> None:
        runs.add("beat")

    async with app.worker():
        await runs.until(1)
        paused = await app.schedules.pause("beat")
        assert (paused.paused, paused.next_tick) == (True, None)
        resumed = await app.schedules.resume("beat")
        assert not resumed.paused
        await runs.until(len(runs.seen) + 2)


async def test_a_schedule_ends_at_its_limit(app: Headrace, runs: Runs) -> None:
    @app.every(0.1, limit=3)
    async def beat() -> None:
        runs.add("beat")

    @app.every(0.1)
    async def other() -> None:
        if (await app.schedules.get("beat")).ended:
            runs.add("ended")

    async with app.worker():
        while runs.seen.count("ended") < 3:
            await runs.until(len(runs.seen) + 1)
    assert runs.seen.count("beat") == 3


async def test_the_next_tick_can_be_known(app: Headrace) -> None:
    @app.task
    async def report() -> None: ...

    made: Schedule = await app.schedules.upsert(
        "nightly",
        report.call(),
        cron="30 2 * * *",
        timezone="America/New_York",
        start=datetime(2045, 7, 1, tzinfo=UTC),
        limit=10,
    )
    assert made.next_tick == datetime(2045, 7, 1, 6, 30, tzinfo=UTC)
    assert (await app.schedules.get("nightly")) == made


async def test_a_schedule_that_is_not_there_is_an_error_that_names_it(app: Headrace) -> None:
    schedules = app.schedules
    for act in (schedules.get, schedules.remove, schedules.pause, schedules.resume):
        with pytest.raises(ScheduleNotFound, match="'nightly'"):
            await act("nightly")
    with pytest.raises(ScheduleNotFound, match="'nightly'"):
        await schedules.run_now("nightly")


async def test_a_wrong_schedule_is_refused_and_nothing_is_stored(app: Headrace) -> None:
    @app.task
    async def report() -> None: ...

    wrong: Any
    for wrong in ({"cron": "nonsense"}, {"every": 0}, {"every": 5, "limit": 0}, {}):
        with pytest.raises(ConfigError, match="'nightly'"):
            await app.schedules.upsert("nightly", report.call(), **wrong)
    with pytest.raises(ConfigError, match="Mars/Olympus"):
        app.cron("* * * * *", timezone="Mars/Olympus")(report)
    assert await app.schedules.list() == []


async def test_what_the_code_declares_is_declared_once(app: Headrace) -> None:
    @app.every(30)
    async def beat() -> None: ...

    with pytest.raises(ConfigError, match="two schedules are named 'beat'"):
        app.every(60)(beat)
    with pytest.raises(ConfigError, match="declared in the code"):
        await app.schedules.upsert("beat", beat.call(), every=60)
    with pytest.raises(ConfigError, match="queue"):
        app.every(60, name="other", queue="mail")(beat)


class Ahead:
    """A clock that was set wrongly."""

    def __init__(self, minutes: int) -> None:
        self._ms = minutes * 60_000

    def now_ms(self) -> int:
        return round(datetime.now(UTC).timestamp() * 1000) + self._ms


async def test_workers_whose_clocks_are_wrong_fire_at_the_right_time(
    redis_url: str, namespace: str, runs: Runs
) -> None:
    fast, slow = Headrace(redis_url, namespace=namespace), Headrace(redis_url, namespace=namespace)
    for app, minutes in ((fast, 10), (slow, -10)):
        # The clock of its machine.
        app.clock = Ahead(minutes)

        @app.every(0.1, missed="all")
        async def beat(ctx: Context) -> None:
            runs.add(ctx.job.id)

    async with fast, slow:
        before_ms = await fast.store.time_ms()
        async with fast.worker(), slow.worker():
            seen = list(await runs.until(8))
        after_ms = await fast.store.time_ms()
    times = [datetime.fromisoformat(id.removeprefix("beat@")).timestamp() for id in seen]
    assert len(set(times)) == len(times)
    assert before_ms < min(times) * 1000
    assert max(times) * 1000 <= after_ms
