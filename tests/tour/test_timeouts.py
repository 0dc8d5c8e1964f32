"""What a timeout means, and what the function says when it is told to end: on every store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
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
from headrace.worker.run import stopper
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


AROUND = pytest.mark.parametrize(
    "around", ["nothing", "middleware", "a rate", "a batch", "a drain"]
)
OPTIONS: dict[str, dict[str, Any]] = {"a rate": {"rate": "100/s"}, "a batch": {"batch": 1}}


async def working(app: Headrace, around: str, stack: AsyncExitStack) -> Callable[[], Any]:
    """Have jobs run until the stack ends; what is returned runs those that have been sent."""
    if around == "a drain":
        return stack.enter_context(app.testing(raise_errors=False)).drain
    await stack.enter_async_context(app.worker())
    return nothing


async def nothing() -> None: ...


@AROUND
async def test_what_a_plain_function_returns_soon_after_its_timeout_counts(
    app: Headrace, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopper, "_CANCEL_GRACE", 60.0)
    if around == "middleware":
        app.middleware(LogRuns())

    def late(number: Any) -> Any:
        # It knows nothing of a context.
        time.sleep(0.3)
        return number

    def look(number: Any) -> Any:
        while not current().cancelled:
            time.sleep(0.01)
        return number

    settings = {"timeout": 0.05, "retry": Retry(1), **OPTIONS.get(around, {})}
    tasks = app.task(**settings)(late), app.task(**settings)(look)
    async with AsyncExitStack() as stack:
        run = await working(app, around, stack)
        jobs = [await task.enqueue(1) for task in tasks]
        await run()
        assert [await job.result(30) for job in jobs] == [1, 1]


@AROUND
async def test_a_plain_function_that_goes_on_after_its_timeout_has_timed_out(
    app: Headrace, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopper, "_CANCEL_GRACE", 0.1)
    go_on = threading.Event()
    if around == "middleware":
        app.middleware(LogRuns())

    def hang(number: Any) -> Any:
        go_on.wait(30)
        return number

    task = app.task(timeout=0.05, retry=Retry(1), **OPTIONS.get(around, {}))(hang)
    async with AsyncExitStack() as stack:
        run = await working(app, around, stack)
        stack.callback(go_on.set)
        job = await task.enqueue(1)
        await run()
        with pytest.raises(JobFailed, match="longer than its timeout"):
            await job.result(30)


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
