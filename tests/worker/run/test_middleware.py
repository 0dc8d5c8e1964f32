"""Middleware: the order in which they stand, what they may change, and what their failure means."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from headrace import (
    BatchError,
    Call,
    ConfigError,
    Context,
    Defer,
    Headrace,
    Job,
    JobFailed,
    Middleware,
    Reject,
    Retry,
    State,
    current,
)
from headrace.middleware import CaptureErrors, JobRun, LogRuns, Proceed, Send
from headrace.store.contract import Store
from tests.worker.states import reach, until

trace: ContextVar[str] = ContextVar("trace", default="none")


class ReportMessage(Middleware):
    """Tells what passes through it."""

    def __init__(self, name: str, facts: list[str]) -> None:
        self.name = name
        self.facts = facts

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        self.facts.append(f"{self.name} sends")
        return await send(call)

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        self.facts.append(f"{self.name} in")
        try:
            return await proceed()
        finally:
            self.facts.append(f"{self.name} out")


class Half(Middleware):
    """Lets through those whose number is even."""

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        if call.payload[-1] % 2:
            raise ValueError("odd")
        return await send(call)


class Traced(Middleware):
    """Sets a context variable, and what the function is given."""

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        trace.set(run.context.job.id)
        run.args = (run.args[0] * 2,)
        run.context = Context(run.context.job, 7, "someone", 1, headers={"by": "middleware"})
        return [await proceed()]


def seen(ctx: Context) -> tuple[str, int, str]:
    return trace.get(), ctx.attempt, ctx.headers["by"]


# At the top level, as tasks that another process must import have to be.
elsewhere = Headrace("memory://")
elsewhere.middleware(Traced())


@elsewhere.task(run_in="process")
def doubled(ctx: Context, number: int) -> tuple[int, str]:
    return number, ctx.headers["by"]


class Returned(Middleware):
    """Notes what functions returned."""

    def __init__(self) -> None:
        self.values: list[object] = []

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        value = await proceed()
        self.values.append(value)
        return value


@elsewhere.task(run_in="process", result_ttl=0)
def tripled(number: int) -> list[int]:
    return [3 * number]


@elsewhere.task(run_in="process", result_ttl=0)
def odd_thing() -> object:
    return sys.stdout


@pytest.fixture
async def app() -> AsyncIterator[Headrace]:
    async with Headrace("memory://") as app:
        yield app


async def test_the_first_one_is_outermost(app: Headrace) -> None:
    facts: list[str] = []

    @app.task
    async def nothing() -> None:
        facts.append("runs")

    app.middleware(ReportMessage("a", facts), ReportMessage("b", facts))
    async with app.worker():
        await (await nothing.enqueue()).result(30)
    assert facts == ["a sends", "b sends", "a in", "b in", "runs", "b out", "a out"]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_the_function_is_given_what_the_middleware_left(app: Headrace, kind: str) -> None:
    async def on_loop(ctx: Context, number: int) -> Any:
        return number, seen(ctx), seen(current())

    def in_thread(ctx: Context, number: int) -> Any:
        return number, seen(ctx), seen(current())

    function: Any = on_loop if kind == "loop" else in_thread
    task = app.task(name="asked")(function)
    app.middleware(Traced())
    async with app.worker():
        job: Job[Any] = await task.enqueue(21)
        given = [job.id, 7, "middleware"]
        assert await job.result(30) == [[42, given, given]]


async def test_the_function_in_a_process_is_given_it_too() -> None:
    async with elsewhere, elsewhere.worker():
        job: Job[Any] = await elsewhere.enqueue(doubled.call(21))
        untyped: Job[Any] = elsewhere.job(job.id)
        assert await untyped.result(60) == [[42, "middleware"]]


async def test_it_sees_the_result_of_a_function_in_a_process_also_if_none_is_kept(
    app: Headrace,
) -> None:
    task = app.task(run_in="process", result_ttl=0)(tripled.function)
    odd = app.task(run_in="process", result_ttl=0)(odd_thing.function)
    app.middleware(returned := Returned())
    async with app.worker(processes=1):
        await reach([await task.enqueue(7)], State.DONE)
        # Nobody keeps it, so nobody minds that it cannot travel.
        await reach([await odd.enqueue()], State.DONE)
    assert returned.values[0] == [21]


async def test_a_middleware_that_fails_fails_that_send_only(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    appends = 0
    append = type(app.store).append

    async def counted(store: Store, *args: Any, **named: Any) -> Any:
        nonlocal appends
        appends += 1
        return await append(store, *args, **named)

    monkeypatch.setattr(type(app.store), "append", counted)

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    app.middleware(Half())
    with pytest.raises(ValueError, match="odd"):
        await app.enqueue_many(note.call(number) for number in range(100))
    assert appends <= 3
    async with app.worker():
        await until(lambda: len(ran) == 50)
    assert sorted(ran) == list(range(0, 100, 2))


async def test_a_middleware_that_fails_fails_that_run_only(app: Headrace) -> None:
    class Picky(Middleware):
        async def run(self, run: JobRun, proceed: Proceed) -> Any:
            if run.args[0] == 2:
                raise LookupError("not two")
            return await proceed()

    @app.task(retry=Retry(1))
    async def echo(number: int) -> int:
        return number

    app.middleware(Picky())
    async with app.worker():
        one, two, three = await app.enqueue_many(echo.call(number) for number in (1, 2, 3))
        assert (await one.result(30), await three.result(30)) == (1, 3)
        with pytest.raises(JobFailed, match="not two"):
            await two.result(30)


async def test_a_batch_passes_as_one(app: Headrace) -> None:
    facts: list[str] = []

    class Last(Middleware):
        async def run(self, run: JobRun, proceed: Proceed) -> Any:
            facts.append(f"{len(run.args[0])} of {run.task.name}")
            return [value + 1 for value in await proceed()]

    @app.task(batch=3, max_wait=60)
    def load(rows: list[int]) -> list[int]:
        return rows

    app.middleware(Last())
    async with app.worker():
        jobs = await app.enqueue_many(load.call(number) for number in range(3))
        assert [await job.result(30) for job in jobs] == [1, 2, 3]
    assert facts == ["3 of load"]


async def test_sync_code_sends_through_it_too(app: Headrace) -> None:
    facts: list[str] = []

    @app.task
    async def nothing() -> None: ...

    app.middleware(ReportMessage("a", facts))
    await asyncio.to_thread(nothing.enqueue_sync)
    assert facts == ["a sends"]
    app.portal.close()


@pytest.mark.parametrize("odd", [ReportMessage, object(), None, print])
async def test_what_is_no_middleware_is_refused(app: Headrace, odd: Any) -> None:
    with pytest.raises(ConfigError, match="instances of"):
        app.middleware(odd)


async def test_a_middleware_whose_methods_are_not_async_is_refused(app: Headrace) -> None:
    class Plain(Middleware):
        def run(self, run: JobRun, proceed: Proceed) -> Any:
            return proceed()

    with pytest.raises(ConfigError, match=r"Plain\.run must be an async function"):
        app.middleware(Plain())


async def test_a_line_is_logged_for_each_run(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retry=Retry(1))
    async def ends(how: str) -> None:
        if how == "reject":
            raise Reject("no")
        if how == "fail":
            raise LookupError

    app.middleware(LogRuns())
    with caplog.at_level(logging.INFO, "headrace.runs"):
        async with app.worker(concurrency=1):
            jobs = [await ends.enqueue(how) for how in ("well", "reject", "fail")]
            for job in jobs:
                await asyncio.gather(job.result(30), return_exceptions=True)
    lines = [record.getMessage() for record in caplog.records if record.name == "headrace.runs"]
    told = ["done", "rejected", "failed with LookupError"]
    for line, job, how in zip(lines, jobs, told, strict=True):
        assert line.startswith(f"ends {job.id} attempt 1: {how} after ")


async def test_a_failure_that_the_worker_logs_can_be_left_to_it(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retry=Retry(1))
    async def ends(how: str) -> None:
        if how == "fail":
            raise LookupError

    app.middleware(LogRuns(failures=False))
    with caplog.at_level(logging.INFO, "headrace"):
        async with app.worker():
            failed, done = await ends.enqueue("fail"), await ends.enqueue("well")
            await asyncio.gather(failed.result(30), done.result(30), return_exceptions=True)
    lines = [(record.name, getattr(record, "job", "")) for record in caplog.records]
    assert lines.count(("headrace.worker", failed.id)) == 1
    assert [job for name, job in lines if name == "headrace.runs"] == [done.id]


async def test_a_capture_that_fails_changes_nothing(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    def capture(error: BaseException) -> None:
        raise OSError("the collector is down")

    @app.task(retry=Retry(1))
    async def broken() -> None:
        raise LookupError("the real one")

    app.middleware(CaptureErrors(capture))
    async with app.worker():
        with pytest.raises(JobFailed, match="the real one"):
            await (await broken.enqueue()).result(30)
    assert "could not be captured" in caplog.text


async def test_task_control_is_not_captured(app: Headrace) -> None:
    told: list[str] = []

    @app.task
    def deferred(ctx: Context) -> None:
        if ctx.fence == 1:
            raise Defer(0.001)

    @app.task(batch=3, max_wait=60, retry=Retry(1))
    def mixed(rows: list[int]) -> None:
        raise BatchError({0: Reject("no"), 2: LookupError("told")})

    app.middleware(CaptureErrors(lambda error: told.append(str(error))))
    async with app.worker():
        await (await deferred.enqueue()).result(30)
        jobs = await app.enqueue_many(mixed.call(number) for number in range(3))
        await asyncio.gather(*(job.result(30) for job in jobs), return_exceptions=True)
    assert told == ["told"]


async def test_it_stands_around_a_thread_in_the_worker_s_loop(app: Headrace) -> None:
    threads: list[int] = []

    class Where(Middleware):
        async def run(self, run: JobRun, proceed: Proceed) -> Any:
            threads.append(threading.get_ident())
            return await proceed()

    @app.task
    def there() -> None:
        threads.append(threading.get_ident())

    app.middleware(Where())
    async with app.worker():
        await (await there.enqueue()).result(30)
    assert threads[0] == threading.get_ident() != threads[1]


async def test_events_are_published_past_it_and_handled_inside_it(app: Headrace) -> None:
    facts: list[str] = []
    app.middleware(ReportMessage("one", facts))
    numbers = app.topic("numbers", int)

    @numbers.subscribe("all")
    async def note(number: int) -> None:
        facts.append(f"got {number}")

    async with app.worker():
        await numbers.publish(7)
        await until(lambda: "one out" in facts)
    assert facts == ["one in", "got 7", "one out"]
