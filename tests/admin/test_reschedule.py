"""`app.admin.run_now()` and `app.admin.reschedule()`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, JobNotFound, State, Task, chain


@pytest.fixture
def add(app: Headrace) -> Task[[int, int], int]:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    return add


async def test_scheduled_jobs_run_now(app: Headrace, add: Task[[int, int], int]) -> None:
    jobs = [await add.options(delay=3600).enqueue(n, 1) for n in range(3)]
    assert await app.admin.run_now([job.id for job in jobs]) == 3
    async with app.worker():
        assert [await job.result(timeout=20) for job in jobs] == [1, 2, 3]


async def test_a_job_is_moved_to_another_time_and_priority(
    app: Headrace, add: Task[[int, int], int]
) -> None:
    job = await add.enqueue(1, 2)
    then = datetime.now(UTC) + timedelta(hours=5)
    assert await app.admin.reschedule(job.id, at=then, priority=7) == 1
    detail = await app.admin.job(job.id)
    assert (detail.state, detail.priority) == (State.SCHEDULED, 7)
    assert detail.due is not None
    assert abs(detail.due - then) < timedelta(seconds=1)
    assert await app.admin.reschedule([job.id], delay=timedelta(0)) == 1
    assert await job.status() is State.WAITING


async def test_a_job_that_would_expire_before_is_not_moved(
    app: Headrace, add: Task[[int, int], int]
) -> None:
    job = await add.options(expires=1500).enqueue(1, 2)
    late = datetime.now(UTC) + timedelta(seconds=2000)
    for change in ({"delay": 2000}, {"at": late}, {"delay": 2000, "priority": 3}):
        with pytest.raises(ConfigError, match=f"job {job.id} expires at .*, before it may start"):
            await app.admin.reschedule(job.id, **change)
    assert await job.status() is State.WAITING
    assert await app.admin.reschedule(job.id, delay=1000) == 1
    assert await app.admin.reschedule(job.id, priority=3) == 1
    assert await app.admin.run_now(job.id) == 1


async def test_a_job_is_moved_to_another_queue(app: Headrace, add: Task[[int, int], int]) -> None:
    app.queue("slow")
    job = await add.options(id="sum-1", delay=60).enqueue(1, 2)
    assert await app.admin.reschedule(job.id, queue="slow", delay=0) == 1
    assert await app.admin.where("sum-1") == ["slow"]
    async with app.worker(queues=["slow"]):
        assert await app.job("sum-1").result(timeout=20) == 3


async def test_what_cannot_be_moved_is_left_alone(
    app: Headrace, add: Task[[int, int], int]
) -> None:
    async with app.worker():
        done = await add.enqueue(1, 2)
        await done.result(timeout=20)
    later = await add.options(delay=60).enqueue(1, 2)
    assert await app.admin.run_now([done.id, later.id, "never-heard-of"]) == 1
    with pytest.raises(JobNotFound):
        await app.admin.run_now("never-heard-of")
    with pytest.raises(ConfigError, match="is done: only waiting and scheduled jobs"):
        await app.admin.reschedule(done.id, priority=3)


async def test_a_job_that_others_know_by_its_queue_says_why_it_stays(app: Headrace) -> None:
    @app.task
    async def count(a: int = 0) -> int:
        return a + 1

    flow = await app.enqueue(chain(count.call(1), count.call()))
    first = (await app.admin.jobs("default", "waiting")).jobs[0]
    with pytest.raises(ConfigError, match="is in a flow"):
        await app.admin.reschedule(first.id, queue="slow")
    named = await count.options(unique="sum").enqueue(1)
    with pytest.raises(ConfigError, match="has a unique name"):
        await app.admin.reschedule(named.id, queue="slow")
    ordered = await count.options(key="k").enqueue(1)
    with pytest.raises(ConfigError, match="has a key or a bound of concurrency"):
        await app.admin.reschedule(ordered.id, queue="slow")
    with pytest.raises(ConfigError, match="is in queue 'default' already"):
        await app.admin.reschedule(named.id, queue="default")
    assert await app.admin.reschedule(first.id, priority=9) == 1
    await flow.cancel()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({}, "say where to"),
        ({"at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 3}, "not both"),
        ({"at": datetime(2030, 1, 1)}, "at must be a datetime with a time zone"),
        ({"delay": -1}, "delay must be at least 0"),
        ({"delay": "soon"}, "delay must be a number"),
        ({"priority": 101}, "priority must be from 0 to 100"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"queue": "two words"}, "queue"),
        ({"queue": "billing@orders"}, "queue"),
    ],
)
async def test_a_change_that_cannot_be_is_refused(app: Headrace, change: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        await app.admin.reschedule("some-job", **change)


async def test_no_ids_are_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="say which jobs"):
        await app.admin.run_now([])


async def test_a_move_is_recorded(app: Headrace, add: Task[[int, int], int]) -> None:
    job = await add.options(delay=60).enqueue(1, 2)
    await app.admin.by("ada").run_now(job.id)
    (action,) = await app.admin.actions()
    assert (action.actor, action.verb, action.target) == ("ada", "run_now", job.id)
