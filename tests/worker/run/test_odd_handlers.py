"""Handlers that do what nobody expects: each gets an outcome, and the worker goes on."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace import ConfigError, Headrace, JobFailed, Retry, RetryLater, State


async def failure(app: Headrace, task: Any) -> JobFailed:
    async with app.worker(concurrency=2):
        jobs = [await task.enqueue() for _ in range(4)]
        for job in jobs:
            with pytest.raises(JobFailed) as failed:
                await job.result(30)
    return failed.value


async def test_a_control_that_forgot_its_delay_is_judged(app: Headrace) -> None:
    class Later(RetryLater):
        def __init__(self) -> None:
            pass

    @app.task(retry=Retry(2, base=0.01))
    async def forgetful() -> None:
        raise Later

    assert (await failure(app, forgetful)).reason == "retries_exhausted"


async def test_an_error_whose_traceback_cannot_be_had_is_judged(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def odd() -> None:
        error = SyntaxError("odd")
        error.text = 5  # type: ignore[assignment]
        error.lineno = "x"  # type: ignore[assignment]
        raise error

    assert (await failure(app, odd)).error_type == "SyntaxError"


async def test_an_error_that_cannot_be_looked_at_is_judged(app: Headrace) -> None:
    class Evil(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    @app.task(retry=Retry(1))
    async def evil() -> None:
        raise Evil

    assert (await failure(app, evil)).reason == "retries_exhausted"


async def test_work_that_nobody_awaited_is_not_done(app: Headrace) -> None:
    def passed_on(function: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[int]]:
        @functools.wraps(function)
        def wrapper() -> Awaitable[int]:
            return function()

        return wrapper

    @app.task(result_ttl=0)
    @passed_on
    async def inner() -> int:
        return 1

    async with app.worker():
        job = await inner.enqueue()
        with pytest.raises(JobFailed) as failed:
            await job.result(30)
    assert failed.value.reason == "bad_result"
    assert "not awaited" in failed.value.error_text


async def test_a_dead_job_says_its_error_even_if_no_result_is_kept(app: Headrace) -> None:
    @app.task(result_ttl=0, retry=Retry(1))
    async def broken() -> None:
        raise ValueError("the reason")

    failed = await failure(app, broken)
    assert (failed.error_type, failed.error_text) == ("ValueError", "the reason")


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_generator_is_refused(kind: str) -> None:
    app = Headrace("memory://")

    def numbers() -> Any:
        yield 1

    async def later() -> Any:
        yield 1

    with pytest.raises(ConfigError, match="generator"):
        app.task(numbers if kind == "generator" else later)


def test_what_is_not_a_function_is_refused() -> None:
    app = Headrace("memory://")

    @app.task
    def fine() -> None: ...

    refused = {
        functools.partial(print): "def",
        object(): "goes on a function",
        fine: "a task already",
    }
    for odd, said in refused.items():
        with pytest.raises(ConfigError, match=said):
            app.task(odd)  # type: ignore[call-overload]


def test_a_process_task_that_could_not_be_found_is_refused() -> None:
    app = Headrace("memory://")
    app.task(run_in="process", name="lost")(threading.main_thread)
    with pytest.raises(ConfigError, match="another process finds it"):
        app.worker()


async def test_a_thread_that_will_not_end_does_not_hold_up_the_stop(app: Headrace) -> None:
    release = threading.Event()

    @app.task(timeout=0.1, retry=Retry(1))
    def stuck() -> None:
        release.wait(60)

    worker = app.worker(drain=3600)
    running = asyncio.create_task(worker.run())
    job = await stuck.enqueue()
    with pytest.raises(JobFailed):
        await job.result(30)
    worker.stop()
    outcome = await running
    release.set()
    assert outcome.exit_code == 0


async def test_a_worker_works_once(app: Headrace) -> None:
    @app.task
    async def nothing() -> None: ...

    worker = app.worker()
    async with worker:
        await (await nothing.enqueue()).result(30)
    with pytest.raises(ConfigError, match="has run already"):
        await worker.run()


async def test_a_finished_job_has_its_result_whatever_the_timeout(app: Headrace) -> None:
    @app.task
    async def one() -> int:
        return 1

    async with app.worker():
        job = await one.enqueue()
        await job.result(30)
        assert await job.result(timeout=0) == 1
        assert await job.status() is State.DONE


async def test_a_traceback_begins_with_the_function_and_not_with_the_worker(app: Headrace) -> None:
    @app.task(retry=Retry(1))
    async def fail() -> None:
        raise ValueError("no")

    @app.task(retry=Retry(1))
    def fail_in_a_thread() -> None:
        raise ValueError("no")

    async with app.worker():
        for task in (fail, fail_in_a_thread):
            with pytest.raises(JobFailed) as failed:
                await (await task.enqueue()).result(timeout=30)
            assert "headrace/worker" not in failed.value.traceback
            assert f"in {task.name}" in failed.value.traceback
