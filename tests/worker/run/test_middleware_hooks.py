"""What else a middleware can hook into: batches, publishes, reads, and which runs it wants."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

import pytest

from headrace import Call, ConfigError, Context, Headrace, Job, Middleware, Retry, chain
from headrace.audit.record import Ending
from headrace.middleware import JobRun, Proceed, Publication, Publish, Received, Send, SendMany
from tests.worker.states import until

colour: ContextVar[str] = ContextVar("colour", default="none")


class Together(Middleware):
    """Notes how many go together, and gives each a header."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        self.sizes.append(1)
        return await send(call)

    async def send_many(self, calls: Sequence[Call[Any]], send: SendMany) -> list[Job[Any]]:
        self.sizes.append(len(calls))
        return await send([call.with_headers({"of": str(len(calls))}) for call in calls])


class Alone(Middleware):
    def __init__(self) -> None:
        self.sent = 0

    async def send(self, call: Call[Any], send: Send) -> Job[Any]:
        self.sent += 1
        return await send(call)


class Painted(Middleware):
    """Has something in a process of its own."""

    def within(self, context: Context) -> AbstractContextManager[object]:
        colour.set(f"{context.headers['colour']} in {os.getpid()}")
        return nullcontext()


# At the top level, as tasks that another process must import have to be.
elsewhere = Headrace("memory://")
elsewhere.middleware(Painted())


@elsewhere.task(run_in="process")
def painted() -> tuple[str, int]:
    return colour.get(), os.getpid()


@pytest.fixture
async def app() -> AsyncIterator[Headrace]:
    async with Headrace("memory://") as app:
        yield app


async def test_calls_that_go_together_pass_as_one(app: Headrace) -> None:
    @app.task
    async def count(ctx: Context) -> str:
        return ctx.headers["of"]

    @app.task
    async def after(ctx: Context, given: str) -> list[str]:
        return [given, ctx.headers["of"]]

    outer, inner = Together(), Alone()
    app.middleware(outer, inner)
    async with app.worker():
        jobs = await app.enqueue_many(count.call() for _ in range(3))
        assert [await job.result(30) for job in jobs] == ["3"] * 3
        flow = await app.enqueue(chain(count.call(), after.call()))
        assert await flow.result(30) == ["2", "2"]
    assert (outer.sizes, inner.sent) == ([3, 2], 5)


async def test_inside_of_one_that_takes_calls_one_by_one_so_do_all(app: Headrace) -> None:
    @app.task
    async def nothing() -> None: ...

    outer, inner = Alone(), Together()
    app.middleware(outer, inner)
    await app.enqueue_many(nothing.call() for _ in range(3))
    assert (outer.sent, inner.sizes) == (3, [1, 1, 1])


@pytest.mark.parametrize("times", [0, 2])
async def test_a_flow_must_be_sent_once(app: Headrace, times: int) -> None:
    class Odd(Middleware):
        async def send_many(self, calls: Sequence[Call[Any]], send: SendMany) -> list[Job[Any]]:
            return [job for _ in range(times) for job in await send(calls)]

    class Fewer(Middleware):
        async def send_many(self, calls: Sequence[Call[Any]], send: SendMany) -> list[Job[Any]]:
            return await send(calls[1:])

    @app.task
    async def number(of: int) -> int:
        return of

    app.middleware(Fewer() if times else Odd())
    with pytest.raises(ConfigError, match="must stay one" if times else "once, not 0 times"):
        await app.enqueue(chain(number.call(1), number.call()))


async def test_a_publish_that_is_refused_publishes_nothing(app: Headrace) -> None:
    class Closed(Middleware):
        async def publish(self, publication: Publication, publish: Publish) -> Any:
            raise PermissionError(publication.topic.name)

    app.middleware(Closed())
    numbers = app.topic("numbers", int)
    with pytest.raises(PermissionError, match="numbers"):
        await numbers.publish(1)
    with pytest.raises(PermissionError, match="numbers"):
        await numbers.publish_many([1, 2])
    assert await numbers.read() == []


async def test_a_run_that_is_not_wanted_is_left_alone(app: Headrace) -> None:
    around: list[int] = []

    class Picky(Middleware):
        def wants(self, run: JobRun) -> bool:
            colour.set(f"{run.task.name} {run.attempt} {run.queue} {run.id}")
            return bool(run.args[0] % 2)

        async def run(self, run: JobRun, proceed: Proceed) -> Any:
            around.append(run.args[0])
            return await proceed()

    @app.task
    async def look(number: int) -> str:
        return colour.get()

    app.middleware(Picky())
    async with app.worker():
        jobs = await app.enqueue_many(look.call(number) for number in range(4))
        seen = [await job.result(30) for job in jobs]
    assert seen == [f"look 1 default {job.id}" for job in jobs]
    assert around == [1, 3]


async def test_a_middleware_sees_reads_and_outcomes(app: Headrace) -> None:
    reads: list[tuple[int, str | None, list[Any]]] = []
    endings: list[Ending] = []

    class Told(Middleware):
        def received(self, received: Received) -> None:
            headers = [dict(each) for each in received.headers()]
            reads.append((len(received), received.queue, headers))
            raise LookupError("which changes nothing")

        async def run(self, run: JobRun, proceed: Proceed) -> Any:
            run.when_settled(endings.append)
            run.when_settled(endings.append)
            return await proceed()

    @app.task(queue="a", retry=Retry(1))
    async def fail() -> None:
        raise LookupError("no")

    @app.task(queue="b", batch=2, max_wait=60)
    async def load(rows: list[int]) -> None: ...

    app.middleware(Told())
    await fail.options(headers={"by": "me"}).enqueue()
    await app.enqueue_many(load.call(row) for row in range(2))
    async with app.worker():
        await until(lambda: len(endings) == 6)
    assert sum(count for count, _, _ in reads) == 3
    assert [header for _, _, headers in reads for header in headers] == [{"by": "me"}]
    dead = Ending("dead", "retries_exhausted", "LookupError", "no")
    assert sorted(endings) == sorted([dead] * 2 + [Ending("done")] * 4)


async def test_a_middleware_can_set_something_up_in_a_process() -> None:
    async with elsewhere, elsewhere.worker():
        job = await painted.options(headers={"colour": "red"}).enqueue()
        found, process = await job.result(60)
    assert (found, process != os.getpid()) == (f"red in {process}", True)


async def test_methods_of_the_wrong_kind_are_refused(app: Headrace) -> None:
    class Waits(Middleware):
        async def wants(self, run: JobRun) -> bool:  # type: ignore[override]
            return True

    with pytest.raises(ConfigError, match=r"Waits\.wants must not be an async function"):
        app.middleware(Waits())
