"""What `app.admin` says of schedules and does about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from headrace import ConfigError, Headrace, ScheduleNotFound


async def test_a_schedule_is_run_paused_and_resumed(app: Headrace) -> None:
    @app.cron("0 3 * * *")
    @app.task(name="tidy")
    async def tidy() -> None: ...

    admin = app.admin.by("ann")
    assert (await admin.pause_schedule("tidy")).paused
    job = await admin.run_schedule("tidy")
    assert (await admin.job(job.id)).task == "tidy"
    assert not (await admin.resume_schedule("tidy")).paused
    assert [(action.verb, action.target, action.detail) for action in await admin.actions()] == [
        ("resume_schedule", "tidy", ""),
        ("run_schedule", "tidy", f"job {job.id}"),
        ("pause_schedule", "tidy", ""),
    ]


async def test_the_next_ticks_are_reported_in_the_zone_of_the_schedule(app: Headrace) -> None:
    @app.task
    async def report() -> None: ...

    schedule = await app.schedules.upsert(
        "monthly", report.call(), cron="30 9 1 * *", timezone="Europe/Berlin"
    )
    ticks = await app.admin.schedule_ticks("monthly", 14)
    assert ticks[0] == schedule.next_tick
    assert len(ticks) == 14
    assert {(tick.day, tick.hour, tick.minute) for tick in ticks} == {(1, 9, 30)}
    assert all(one < other for one, other in pairwise(ticks))
    await app.admin.pause_schedule("monthly")
    assert await app.admin.schedule_ticks("monthly") == []


async def test_no_ticks_are_reported_beyond_the_end_or_the_limit(app: Headrace) -> None:
    @app.task
    async def report() -> None: ...

    await app.schedules.upsert("thrice", report.call(), every=60, limit=3)
    assert len(await app.admin.schedule_ticks("thrice")) == 3
    until = datetime.now(UTC) + timedelta(seconds=150)
    await app.schedules.upsert("ending", report.call(), every=60, end=until)
    assert len(await app.admin.schedule_ticks("ending")) in (2, 3)


async def test_ticks_of_a_declared_schedule_are_reported_before_any_worker_saw_it(
    app: Headrace,
) -> None:
    @app.every(10, name="tidy")
    @app.task
    async def tidy() -> None: ...

    assert len(await app.admin.schedule_ticks("tidy", 2)) == 2


async def test_what_cannot_be_read_has_no_ticks(app: Headrace) -> None:
    await app.admin.queues()
    await app.store.kv_set("schedules", "broken", b"\x00")
    assert await app.admin.schedule_ticks("broken") == []


async def test_ticks_of_a_schedule_that_is_not_there_are_an_error(app: Headrace) -> None:
    with pytest.raises(ScheduleNotFound):
        await app.admin.schedule_ticks("never")
    with pytest.raises(ConfigError, match="count"):
        await app.admin.schedule_ticks("never", 0)
