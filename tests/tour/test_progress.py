"""Progress and logs: what a running job reports, on every store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

from headrace import ConfigError, Context, Headrace, JobFailed, JobNotFound, JobUpdate, Retry, State
from headrace.client.watch import JobWatch

# At the top level, as tasks that another process must import have to be.
processes = Headrace("memory://")


@processes.task(run_in="process", retry=Retry(1))
def count_in_a_process(ctx: Context, steps: int) -> None:
    for step in range(steps):
        ctx.log(f"step {step}")
        ctx.progress((step + 1) / steps, "counting")


def told_by(updates: list[JobUpdate]) -> list[str]:
    return [line for update in updates for line in update.lines]


async def test_a_job_says_how_far_it_is(app: Headrace) -> None:
    reported, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def count(ctx: Context) -> None:
        ctx.progress(0.4, "nearly half way")
        reported.set()
        await go.wait()

    job = await count.enqueue()
    assert await job.progress() is None
    async with app.worker():
        await reported.wait()
        async for update in job.watch():
            if update.progress is not None:
                break
        progress = await job.progress()
        assert progress is not None
        assert (progress.fraction, progress.text) == (0.4, "nearly half way")
        assert (await job.info()).progress == progress
        go.set()
        await job.result(30)
    assert await job.progress() == progress


async def test_a_jobs_log_is_kept_after_its_end(app: Headrace) -> None:
    @app.task
    async def talk(ctx: Context) -> None:
        for number in range(3):
            ctx.log(f"line {number}")

    async with app.worker():
        job = await talk.enqueue()
        await job.result(30)
    assert await job.log() == ["line 0", "line 1", "line 2"]
    assert await app.job(job.id).log() == ["line 0", "line 1", "line 2"]


async def test_a_log_keeps_its_last_thousand_lines(app: Headrace) -> None:
    @app.task
    async def talk(ctx: Context) -> None:
        for number in range(2_500):
            ctx.log(str(number))
            if not number % 500:
                await asyncio.sleep(0)

    async with app.worker():
        job = await talk.enqueue()
        await job.result(30)
    lines = await job.log()
    assert len(lines) == 1_000
    assert lines[-1] == "2499"


async def test_watching_a_job_gives_what_changes_until_it_ends(app: Headrace) -> None:
    steps: asyncio.Queue[float] = asyncio.Queue()

    @app.task
    async def follow(ctx: Context) -> None:
        while (step := await steps.get()) < 1:
            ctx.log(f"at {step}")
            ctx.progress(step)
        ctx.log("over")

    job = await follow.enqueue()
    updates: list[JobUpdate] = []
    async with app.worker():
        async for update in job.watch(poll=0.05):
            updates.append(update)
            if update.state is State.RUNNING and not update.progress:
                steps.put_nowait(0.5)
            elif update.progress and update.progress.fraction == 0.5:
                steps.put_nowait(1.0)
    assert updates[0].state in (State.WAITING, State.RUNNING)
    assert {u.progress.fraction for u in updates if u.progress} == {0.5}
    assert updates[-1].state is State.DONE
    assert told_by(updates) == ["at 0.5", "over"]


async def test_watching_needs_no_polling_to_hear_of_news_and_of_the_end(app: Headrace) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def follow(ctx: Context) -> None:
        begun.set()
        await go.wait()
        ctx.log("news")

    async with app.worker():
        job = await follow.enqueue()
        await begun.wait()
        updates = []
        async with asyncio.timeout(30):
            async for update in job.watch(poll=3_600):
                updates.append(update)
                go.set()
    assert updates[-1].state is State.DONE
    assert told_by(updates) == ["news"]


async def test_watching_an_unknown_job_says_so(app: Headrace) -> None:
    with pytest.raises(JobNotFound):
        async for _ in app.job("nobody").watch():
            pass


async def test_watching_a_job_whose_result_is_not_kept_ends(app: Headrace) -> None:
    watched = asyncio.Event()

    @app.task(result_ttl=0)
    async def forget() -> None:
        await watched.wait()

    job = await forget.enqueue()
    states = []
    async with app.worker(), asyncio.timeout(30):
        async for update in job.watch(poll=0.05):
            states += [update.state]
            watched.set()
    assert states[-1] is State.DONE


async def test_a_task_in_a_thread_reports_too(app: Headrace) -> None:
    reported, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.task
    def count(ctx: Context) -> None:
        ctx.log("from a thread")
        ctx.progress(0.5)
        loop.call_soon_threadsafe(reported.set)
        go.wait(30)

    async with app.worker():
        job = await count.enqueue()
        await reported.wait()
        async for update in job.watch():
            if update.progress is not None:
                assert update.progress.fraction == 0.5
                break
        go.set()
        await job.result(30)
    assert await job.log() == ["from a thread"]


async def test_a_task_in_a_process_reports_too() -> None:
    async with processes, processes.worker():
        job = await count_in_a_process.enqueue(500)
        updates = [update async for update in job.watch()]
    assert updates[-1].state is State.DONE
    assert told_by(updates) == [f"step {number}" for number in range(500)]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), "half", True, None])
async def test_a_progress_that_is_none_fails_at_the_call(app: Headrace, fraction: object) -> None:
    @app.task(retry=Retry(1))
    async def count(ctx: Context) -> str:
        with pytest.raises(ConfigError, match="from 0 to 1"):
            ctx.progress(fraction)  # type: ignore[arg-type]
        return "went on"

    async with app.worker():
        assert await (await count.enqueue()).result(30) == "went on"


SENDER = """
import asyncio, sys
from headrace import Headrace
app = Headrace(sys.argv[1], namespace=sys.argv[2])
async def main():
    async with app:
        async for update in app.job(sys.argv[3]).watch(poll=3600):
            print(update.state, *update.lines, flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("store_url", ["sqlite", "redis"], indirect=True)
async def test_another_process_watches_live(app: Headrace, namespace: str, tmp_path: Path) -> None:
    begun, words = asyncio.Event(), asyncio.Queue[str]()

    @app.task
    async def talk(ctx: Context) -> None:
        begun.set()
        while (word := await words.get()) != "bye":
            ctx.log(word)

    (tmp_path / "watcher.py").write_text(SENDER)
    async with app.worker():
        job = await talk.enqueue()
        await begun.wait()
        watcher = await asyncio.create_subprocess_exec(
            sys.executable, str(tmp_path / "watcher.py"), app.url, namespace, job.id,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert watcher.stdout is not None
        assert await watcher.stdout.readline() == b"running\n"
        words.put_nowait("hello")
        assert await watcher.stdout.readline() == b"running hello\n"
        words.put_nowait("bye")
        assert await watcher.stdout.readline() == b"done\n"
        assert await watcher.wait() == 0


async def test_a_job_that_the_store_has_lost_before_its_time_is_not_taken_for_done(
    app: Headrace,
) -> None:
    @app.task
    async def later() -> None: ...

    job = await later.options(delay=3600).enqueue()
    empty = Headrace("memory://")
    watch = JobWatch((await app.session()).store, "default", job.job_id, poll=0.01)
    async with empty, aclosing(watch.updates()) as updates:
        assert (await anext(updates)).state is State.SCHEDULED
        # As after a restart of a server that keeps nothing.
        watch._store = (await empty.session()).store
        with pytest.raises(JobNotFound):
            await anext(updates)


async def test_progress_in_steps_is_kept_after_the_end(app: Headrace) -> None:
    @app.task
    async def count(ctx: Context, steps: int) -> None:
        ctx.progress(0.5, "half")
        for step in range(steps):
            ctx.progress.increment(0.5 / steps, f"step {step}")

    async with app.worker():
        job = await count.enqueue(10)
        await job.result(30)
    progress = await job.progress()
    assert progress is not None
    assert progress.fraction == pytest.approx(1.0)
    assert progress.text == "step 9"
    info = await job.info()
    assert info.progress == progress


async def test_an_increment_is_a_part_and_ends_at_one(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def count(ctx: Context, by: float) -> None:
        ctx.progress(0.9)
        ctx.progress.increment(by)

    async with app.worker():
        job = await count.enqueue(0.5)
        await job.result(30)
        progress = await job.progress()
        assert progress is not None
        assert progress.fraction == 1.0
        with pytest.raises(JobFailed, match=r"increment\(\) takes a number from 0 to 1, not 2"):
            await (await count.enqueue(2)).result(30)


async def test_a_job_knows_how_often_it_died(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def fail() -> None:
        raise KeyError("lost")

    async with app.worker():
        job = await fail.enqueue()
        for count in (1, 2, 3):
            with pytest.raises(JobFailed):
                await job.result(30)
            assert (await job.info()).death_count == count
            assert (await app.admin.dead_job(job.id)).death_count == count
            await app.admin.replay([job.id])
            detail = await app.admin.job(job.id)
            assert detail.death_count >= count
