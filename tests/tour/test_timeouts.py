"""What a timeout means, and what the function says when it is told to end: on every store."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from headrace import (
    Context,
    DeadEvent,
    Defer,
    Delivery,
    Headrace,
    JobFailed,
    Reject,
    Retry,
    RetryLater,
    Topic,
    current,
)
from headrace.core.job.history import decode_history
from headrace.core.job.ids import to_id
from headrace.middleware import LogRuns
from tests.tour.heard import Heard, Paid


async def test_a_run_that_takes_too_long_is_dead_or_put_off_as_its_task_says(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[int] = []

    @app.task(timeout=0.05, on_timeout="dead")
    async def hang() -> None:
        await asyncio.sleep(60)

    @app.task(timeout=0.05, on_timeout="defer", retry=Retry(1))
    async def hang_once(ctx: Context) -> int:
        runs.append(ctx.attempt)
        await asyncio.sleep(60 if len(runs) == 1 else 0)
        return len(runs)

    async with app.worker():
        dead = await hang.enqueue()
        put_off = await hang_once.enqueue()
        retried = await hang.options(on_timeout="retry", retry=Retry(1)).enqueue()
        with pytest.raises(JobFailed, match="longer than its timeout") as failure:
            await dead.result(30)
        assert failure.value.reason == "timed_out"
        assert await put_off.result(30) == 2
        assert f"{put_off.id} is put off: the job ran longer than its timeout" in caplog.text
        with pytest.raises(JobFailed) as failure:
            await retried.result(30)
        assert failure.value.reason == "retries_exhausted"
    assert runs == [1, 1]


@pytest.mark.parametrize("around", ["nothing", "middleware", "a rate", "a batch", "a drain"])
async def test_a_plain_function_that_cannot_see_its_end_has_timed_out_at_once(
    app: Headrace, around: str
) -> None:
    go_on = threading.Event()
    options: dict[str, dict[str, Any]] = {"a rate": {"rate": "100/s"}, "a batch": {"batch": 1}}
    if around == "middleware":
        app.middleware(LogRuns())

    def wait(number: Any) -> Any:
        go_on.wait(3)
        return number

    def look(number: Any) -> Any:
        while not current().cancelled:
            go_on.wait(0.01)
        return number

    settings = {"timeout": 0.05, "retry": Retry(1), **options.get(around, {})}
    blind, seeing = app.task(**settings)(wait), app.task(**settings)(look)
    async with AsyncExitStack() as stack:
        stack.callback(go_on.set)
        if around == "a drain":
            kit = stack.enter_context(app.testing(raise_errors=False))
            jobs = await blind.enqueue(1), await seeing.enqueue(1)
            await kit.drain()
        else:
            await stack.enter_async_context(app.worker())
            jobs = await blind.enqueue(1), await seeing.enqueue(1)
        with pytest.raises(JobFailed, match="longer than its timeout"):
            await jobs[0].result(30)
        assert await jobs[1].result(30) == 1


@pytest.mark.parametrize("run_in", ["loop", "thread"])
async def test_what_a_function_says_when_it_is_told_to_end_counts(
    app: Headrace, run_in: str
) -> None:
    last_words = {"reject": Reject("too big"), "later": RetryLater(0.0), "defer": Defer(0.0)}
    runs: list[tuple[str, int]] = []

    def say(what: str, ctx: Context) -> str:
        if what in last_words and (what, 1) not in runs:
            runs.append((what, ctx.attempt))
            raise last_words[what]
        return f"{what} on attempt {ctx.attempt}"

    if run_in == "loop":

        @app.task(timeout=0.05, on_timeout="dead")
        async def work(what: str, ctx: Context) -> str:
            if (what, 1) not in runs:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    return say(what, ctx)
            return say(what, ctx)

        task: Any = work.call
    else:

        @app.task(timeout=0.05, on_timeout="dead")
        def work_in_thread(what: str, ctx: Context) -> str:
            while (what, 1) not in runs and not ctx.cancelled:
                time.sleep(0.001)
            return say(what, ctx)

        task = work_in_thread.call
    async with app.worker():
        calls = [task(what) for what in ("value", "later", "defer", "reject")]
        value, later, defer, rejected = await app.enqueue_many(calls)
        assert await value.result(30) == "value on attempt 1"
        assert await later.result(30) == "later on attempt 2"
        assert await defer.result(30) == "defer on attempt 1"
        with pytest.raises(JobFailed, match="too big") as failure:
            await rejected.result(30)
    assert failure.value.reason == "rejected"


async def test_a_job_is_put_off_so_often_and_no_more(app: Headrace) -> None:
    runs: list[int] = []

    @app.task(max_defers=2)
    async def wait() -> None:
        runs.append(1)
        raise Defer(0)

    async with app.worker():
        job = await wait.enqueue()
        with pytest.raises(JobFailed, match="put off 2 times") as failure:
            await job.result(30)
    assert failure.value.reason == "defers_exhausted"
    assert len(runs) == 3
    (dead,) = await app.admin.dead()
    (seen,) = await app.store.get("default", [to_id(job.id)], bodies=True)
    assert dead.reason == "defers_exhausted"
    assert seen is not None
    assert decode_history(seen.history).defers == 2
    async with app.worker():
        job = await wait.options(max_defers=0).enqueue()
        with pytest.raises(JobFailed, match="defers_exhausted"):
            await job.result(30)


@pytest.mark.parametrize("ack", ["success", "manual"])
async def test_an_event_is_put_off_so_often_and_no_more(
    app: Headrace, orders: Topic[Paid], heard: Heard, ack: str
) -> None:
    if ack == "manual":

        @orders.subscribe("bank", ack="manual", max_defers=1)
        async def by_hand(event: Paid, delivery: Delivery) -> None:
            heard.add("bank", event)
            await delivery.defer(0)

    else:

        @orders.subscribe("bank", max_defers=1)
        async def bank(event: Paid) -> None:
            heard.add("bank", event)
            raise Defer(0)

    died: asyncio.Queue[str] = asyncio.Queue()

    @orders.on_dead("bank")
    async def note(dead: DeadEvent) -> None:
        died.put_nowait(dead.reason)

    async with app.worker():
        await orders.publish(Paid("o-1"))
        async with asyncio.timeout(30):
            assert await died.get() == "defers_exhausted"
    assert len(heard["bank"]) == 2
