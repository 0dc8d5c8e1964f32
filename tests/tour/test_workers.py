"""Workers: queues, state, timeouts, stopping; one short test each, on every store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from headrace import Context, Defer, Headrace, JobFailed, Reject, Retry, RetryLater, State
from headrace.worker.run import stopper


async def test_a_worker_reads_only_its_queues(app: Headrace) -> None:
    @app.task(queue="mail")
    async def mail() -> str:
        return "sent"

    @app.task(queue="reports")
    async def report() -> str:
        return "made"

    left = await report.enqueue()
    async with app.worker(queues=["mail"]):
        assert await (await mail.enqueue()).result(30) == "sent"
    assert await left.status() is State.WAITING


async def test_a_lifespan_makes_state_that_tasks_share(app: Headrace) -> None:
    log: list[str] = []

    @app.lifespan
    async def lifespan() -> AsyncIterator[dict[str, str]]:
        log.append("open")
        yield {"greeting": "hello"}
        log.append("closed")

    @app.task
    async def greet(ctx: Context) -> str:
        greeting: str = ctx.state["greeting"]
        return greeting

    async with app.worker():
        assert await (await greet.enqueue()).result(30) == "hello"
        assert log == ["open"]
    assert log == ["open", "closed"]


async def test_no_more_jobs_run_at_once_than_the_worker_may(app: Headrace) -> None:
    running = most = 0
    full = asyncio.Event()

    @app.task
    async def count() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0.005)
        running -= 1

    async with app.worker(concurrency=3):
        jobs = await app.enqueue_many(count.call() for _ in range(30))
        await asyncio.gather(*(job.result(30) for job in jobs))
    assert most == 3


async def test_an_async_job_that_takes_too_long_is_cancelled(app: Headrace) -> None:
    ended: list[str] = []

    @app.task(timeout=0.1, retry=Retry(1))
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with app.worker():
        with pytest.raises(JobFailed) as failed:
            await (await slow.enqueue()).result(30)
    assert failed.value.error_type == "TimeoutError"
    assert ended == ["cancelled"]


async def test_a_thread_that_takes_too_long_keeps_its_slot_until_it_ends(
    app: Headrace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long it may take to clean up.
    monkeypatch.setattr(stopper, "_CANCEL_GRACE", 0.1)
    release = threading.Event()

    @app.task(timeout=0.1, retry=Retry(1))
    def stuck(ctx: Context) -> None:
        release.wait(30)
        assert ctx.cancelled

    @app.task(name="next")
    def following() -> str:
        return "ran"

    async with app.worker(threads=1, concurrency=2):
        with pytest.raises(JobFailed) as failed:
            await (await stuck.enqueue()).result(30)
        assert failed.value.error_type == "TimeoutError"
        assert "its slot stays taken" in caplog.text
        waiting = await following.enqueue()
        await asyncio.sleep(0.1)
        assert await waiting.status() is not State.DONE
        release.set()
        assert await waiting.result(30) == "ran"


async def test_a_timeout_can_be_set_for_one_call(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def slow() -> None:
        await asyncio.sleep(60)

    async with app.worker():
        with pytest.raises(JobFailed):
            await (await slow.options(timeout=0.1).enqueue()).result(30)


async def test_a_retry_policy_can_be_set_for_one_call(app: Headrace) -> None:
    runs = 0

    @app.task(retry=Retry(1))
    async def fails() -> None:
        nonlocal runs
        runs += 1
        raise KeyError("no")

    policy = Retry(5, backoff=[0.01], on=(LookupError,))
    async with app.worker():
        with pytest.raises(JobFailed):
            await (await fails.options(retry=policy).enqueue()).result(30)
    assert runs == 5


async def test_a_task_may_ask_to_be_retried_later(app: Headrace) -> None:
    @app.task(retry=Retry(2, base=100))
    async def later(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise RetryLater(0.01)
        return ctx.attempt

    async with app.worker():
        assert await (await later.enqueue()).result(30) == 2


async def test_a_task_may_reject_its_job(app: Headrace) -> None:
    runs = 0

    @app.task
    async def picky() -> None:
        nonlocal runs
        runs += 1
        raise Reject("not for me")

    async with app.worker():
        with pytest.raises(JobFailed, match="not for me") as failed:
            await (await picky.enqueue()).result(30)
    assert (failed.value.reason, runs) == ("rejected", 1)


async def test_a_deferred_job_uses_no_attempt(app: Headrace) -> None:
    runs = 0

    @app.task(retry=Retry(1))
    async def patient(ctx: Context) -> tuple[int, int]:
        nonlocal runs
        runs += 1
        if runs < 4:
            raise Defer(0.01)
        return ctx.attempt, ctx.fence

    async with app.worker():
        assert await (await patient.enqueue()).result(30) == (1, 4)


async def test_a_stopping_worker_lets_running_jobs_end(app: Headrace) -> None:
    begun, ended = asyncio.Event(), False

    @app.task
    async def work() -> None:
        nonlocal ended
        begun.set()
        await asyncio.sleep(0.2)
        ended = True

    worker = app.worker()
    async with worker:
        job = await work.enqueue()
        await begun.wait()
    assert ended
    assert await job.status() is State.DONE


async def test_a_job_cut_short_by_the_deadline_goes_back_unharmed(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task(retry=Retry(1))
    async def long(ctx: Context) -> int:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(60)
        return ctx.attempt

    worker = app.worker(drain=0.05)
    running = asyncio.create_task(worker.run())
    job = await long.enqueue()
    await begun.wait()
    worker.stop()
    outcome = await running
    assert (outcome.timed_out, outcome.exit_code) == (True, 3)
    assert await job.status() is State.WAITING
    async with app.worker():
        assert await job.result(30) == 1


async def test_a_job_that_fails_while_it_is_cut_short_goes_back_too(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task(retry=Retry(1))
    async def clumsy() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise RuntimeError("the cleaning up failed")

    worker = app.worker(drain=0)
    running = asyncio.create_task(worker.run())
    job = await clumsy.enqueue()
    await begun.wait()
    worker.stop()
    await running
    info = await job.info()
    assert (info.state, info.attempts) == (State.WAITING, ())


async def test_a_second_stop_does_not_wait(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        await asyncio.sleep(60)

    worker = app.worker(drain=3600)
    running = asyncio.create_task(worker.run())
    job = await long.enqueue()
    await begun.wait()
    worker.stop()
    worker.stop()
    assert (await running).timed_out
    assert await job.status() is State.WAITING


async def test_a_clean_stop_is_reported_as_one(app: Headrace) -> None:
    @app.task
    async def nothing() -> None: ...

    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await (await nothing.enqueue()).result(30)
    worker.stop()
    outcome = await running
    assert (outcome.errors, outcome.crashes, outcome.timed_out) == (0, 0, False)
    assert outcome.exit_code == 0


async def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_job(
    app: Headrace,
) -> None:
    runs = 0

    @app.task
    async def rude() -> int:
        nonlocal runs
        runs += 1
        time.sleep(3 * app.lease)  # noqa: ASYNC251
        return runs

    async with app.worker(), app.worker():
        job = await rude.enqueue()
        assert await job.result(60) == 1
        await asyncio.sleep(app.lease)
    assert runs == 1
