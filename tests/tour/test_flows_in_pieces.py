"""Flows of which something is gone, or is on its way, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace import (
    ConfigError,
    FlowCounts,
    FlowJob,
    Headrace,
    JobCancelled,
    JobFailed,
    JobNotFound,
    ResultTimeout,
    Retry,
    State,
    chain,
    group,
)


class Press:
    """Tasks of which one fails until it is repaired."""

    def __init__(self, app: Headrace) -> None:
        self.broken = True

        @app.task(retry=Retry(1))
        async def press(number: int) -> int:
            if self.broken:
                raise ValueError(f"{number} is stuck")
            return number

        @app.task
        async def near(number: int) -> int:
            return number

        @app.task(queue="far")
        async def far(number: int) -> int:
            return number

        @app.task(queue="far", result_ttl=0, keep_done=0)
        async def vanish(number: int) -> int:
            return number

        @app.task
        async def join(numbers: list[int]) -> int:
            return sum(numbers)

        self.press, self.near, self.far = press, near, far
        self.vanish, self.join = vanish, join


@pytest.fixture
def broken(app: Headrace) -> Press:
    return Press(app)


async def test_what_waited_for_a_purged_job_has_failed(app: Headrace, broken: Press) -> None:
    """Though the job that failed first was replayed, and is done."""
    calls = (broken.press.call(1), broken.near.call(), broken.near.call(), broken.near.call())
    flow = await app.enqueue(chain(*calls))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        purged = flow.jobs[1].id
        assert await app.admin.purge(purged) == 1
        broken.broken = False
        assert await flow.resume() == 1
        assert await flow.jobs[0].result(timeout=20) == 1
        async with asyncio.timeout(20):
            with pytest.raises(JobFailed) as failed:
                await flow.result()
        assert failed.value.cause is not None
        assert failed.value.cause.job_id == purged
        assert await flow.status() is State.DEAD
        assert await app.admin.why(flow.id) == (
            f"It is dead (parent_failed): it waited for job {purged}, which failed and is not kept."
        )
        with pytest.raises(ConfigError, match=f"it waited for job {purged} of queue 'default'"):
            await app.admin.replay(flow.id)


async def test_replaying_what_waited_for_a_purged_job_says_why_it_cannot(
    app: Headrace, broken: Press
) -> None:
    flow = await app.enqueue(chain(broken.press.call(1), broken.near.call(), broken.far.call()))
    first, second, last = flow.jobs
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        assert await app.admin.purge(first.id) == 1
        for job in (second, last):
            with pytest.raises(ConfigError) as refused:
                await app.admin.replay(job.id)
            assert str(refused.value).startswith(
                f"job {job.id} cannot run again: it waited for job {first.id} of queue 'default', "
            )
            assert await job.status() is State.DEAD
        assert await app.admin.replay(task="near") == 0, "what is chosen may be none"
        with pytest.raises(ConfigError, match=f"{last.id} cannot run again: .* job {first.id} of"):
            await flow.resume()


async def test_waiting_for_a_replay_on_its_way_ends_in_time(app: Headrace, broken: Press) -> None:
    """On Redis, no worker brings it to the other queue."""
    flow = await app.enqueue(chain(broken.press.call(1), broken.far.call()))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
    assert await flow.resume() == 1
    async with asyncio.timeout(20):
        with pytest.raises(ResultTimeout):
            await flow.result(timeout=0.1)
    answer = await app.admin.why(flow.id)
    if await flow.jobs[1].status() is State.DEAD:
        first = flow.jobs[0].id
        assert answer == (
            f"It is dead (parent_failed): it waited for job {first}, which failed and was "
            "replayed; the next worker that reads queue 'default' lets it go on."
        )
    broken.broken = False
    async with app.worker():
        assert await flow.result(timeout=20) == 1
    assert await flow.counts() == FlowCounts(done=2)


async def test_a_flow_that_is_sent_again_is_counted_anew(app: Headrace) -> None:
    @app.task(result_ttl=0, keep_done=0)
    async def part(number: int) -> int:
        return number

    @app.task(queue="reports", result_ttl=0, keep_done=0)
    async def report(numbers: list[int]) -> int:
        return sum(numbers)

    parts = [part.options(id=f"part-{number}").call(number) for number in range(3)]
    for _ in range(2):
        flow = await app.enqueue(group(parts).then(report.options(id="report").call()))
        assert await flow.counts() == FlowCounts(waiting=3, blocked=1)
        assert (await flow.progress()).text == "0 of 4"
        assert await flow.status() is State.WAITING
        async with app.worker(), asyncio.timeout(20):
            while True:
                if await flow.counts() == FlowCounts(done=4):
                    break
                await asyncio.sleep(0.01)
        assert await flow.status() is State.DONE


async def test_a_flow_resumes_with_a_job_that_was_sent_before_it(
    app: Headrace, broken: Press
) -> None:
    first = await broken.press.enqueue(1)
    flow = await app.enqueue(chain(broken.near.call().after(first), broken.far.call()))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        broken.broken = False
        assert await flow.resume() == 1
        assert await flow.resume() == 0
        assert await flow.result(timeout=20) == 1


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_purged_flow_is_not_done(app: Headrace, broken: Press, grouped: bool) -> None:
    flow: FlowJob[Any]
    if grouped:
        flow = await app.enqueue(group([broken.press.call(1)]))
    else:
        flow = await app.enqueue(chain(broken.press.call(1), broken.near.call()))
    async with app.worker():
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
    assert await app.admin.purge(queue="default") == len(flow.jobs)
    assert await flow.counts() == FlowCounts(dead=len(flow.jobs))
    assert await flow.status() is State.DEAD
    assert (await flow.info()).state is State.DEAD


async def test_a_flow_whose_last_job_was_removed_is_not_done(app: Headrace, broken: Press) -> None:
    flow = await app.enqueue(chain(broken.press.call(1), broken.far.call()))
    await app.admin.remove_queue("far", force=True)
    assert await flow.status() is State.WAITING
    broken.broken = False
    async with app.worker(queues=["default"]):
        assert await flow.jobs[0].result(timeout=20) == 1
    assert await flow.counts() == FlowCounts(done=1, cancelled=1)
    assert await flow.status() is State.CANCELLED


async def test_jobs_that_went_with_their_queue_are_not_done(app: Headrace, broken: Press) -> None:
    both = group(broken.far.call(number) for number in (1, 2))
    flow = await app.enqueue(both.then(broken.join.call()))
    await app.admin.remove_queue("far", force=True)
    assert await flow.counts() == FlowCounts(cancelled=3)
    assert (await flow.progress()).fraction == 0
    assert await flow.status() is State.CANCELLED
    for job in flow.jobs[:2]:
        with pytest.raises(JobNotFound):
            await job.status()
        with pytest.raises(JobNotFound):
            await job.result(timeout=5)
    alone = await app.enqueue(group([broken.far.call(3), broken.far.call(4)]))
    await app.admin.remove_queue("far", force=True)
    assert await alone.counts() == FlowCounts(cancelled=2)
    with pytest.raises(JobNotFound):
        await alone.status()


async def test_jobs_that_were_done_stay_so_without_their_queue(
    app: Headrace, broken: Press
) -> None:
    broken.broken = False
    flow = await app.enqueue(chain(broken.vanish.call(1), broken.near.call()))
    async with app.worker():
        assert await flow.result(timeout=20) == 1
    assert await app.admin.remove_queue("far")
    assert await flow.counts() == FlowCounts(done=2)
    assert await flow.status() is State.DONE


async def test_what_waits_for_a_removed_queue_is_cancelled(app: Headrace, broken: Press) -> None:
    flow = await app.enqueue(
        chain(broken.near.call(1), broken.far.call(), broken.near.call(), broken.near.call())
    )
    await app.admin.remove_queue("far", force=True)
    assert await flow.status() is State.CANCELLED
    with pytest.raises(JobCancelled):
        await flow.result(timeout=5)
    async with app.worker():
        assert await flow.jobs[0].result(timeout=20) == 1
