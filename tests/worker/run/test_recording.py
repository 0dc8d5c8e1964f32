"""What the events tell of a run comes from the executor."""

from __future__ import annotations

from datetime import timedelta

from headrace import Context, Headrace, Retry
from headrace.store.values import Fact


async def facts(app: Headrace, kind: str) -> list[Fact]:
    events = await app.store.events("default")
    return [event.fact for event in events if event.fact.kind == kind]


async def test_a_run_is_recorded_with_its_attempt_and_times(app: Headrace) -> None:
    @app.task(retry=Retry(2, base=0.001))
    async def second_time(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError

    before = await app.store.time_ms()
    async with app.worker():
        job = await second_time.enqueue()
        await job.result(30)
    after = await app.store.time_ms()
    (retry,), (done,) = await facts(app, "retry"), await facts(app, "done")
    assert (retry.task, retry.attempt) == ("second_time", 1)
    assert (done.task, done.attempt) == ("second_time", 2)
    # The store's clock is compared now and then, so to the millisecond it may differ.
    assert before - 50 <= retry.started_ms <= done.started_ms <= after + 50
    lasted_us = 1000 * (after - before + 100)
    assert 0 < retry.took_us < lasted_us
    assert 0 < done.took_us < lasted_us


async def test_each_job_of_a_batch_is_recorded(app: Headrace) -> None:
    @app.task(batch=3, max_wait=60)
    async def load(rows: list[int]) -> None: ...

    async with app.worker():
        jobs = await app.enqueue_many(load.call(number) for number in range(3))
        for job in jobs:
            await job.result(30)
    done = await facts(app, "done")
    assert {fact.job_id for fact in done} == {job.job_id for job in jobs}
    assert {(fact.task, fact.attempt) for fact in done} == {("load", 1)}
    assert len({fact.started_ms for fact in done}) == 1


async def test_a_job_that_never_ran_has_no_times(app: Headrace) -> None:
    @app.task(name="typed")
    async def typed(number: int) -> None: ...

    app.tasks["untyped"] = app.tasks.pop("typed")
    app.unknown_task_after = timedelta()
    await typed.enqueue(1)
    async with app.worker():
        while not (dead := await facts(app, "dead")):
            pass
    assert [(fact.task, fact.started_ms, fact.took_us) for fact in dead] == [("typed", 0, 0)]
