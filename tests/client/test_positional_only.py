"""Positional-only parameters: a context among them is filled in, and arguments travel by name."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ArgumentError, Context, Delivery, Headrace, Job, Task
from headrace.testing import perform, perform_batch
from tests.worker.states import until

# At the top level, as tasks that another process must import have to be.
app = Headrace("memory://")

Seen = list[Any]


@app.task(run_in="process")
def first(ctx: Context, /, x: int) -> Seen:
    return [ctx.attempt, x]


@app.task(run_in="process")
def last(x: int, ctx: Context, /) -> Seen:
    return [ctx.attempt, x]


@app.task(run_in="process")
def among(ctx: Context, x: int, y: int = 2, /, *, z: int = 3) -> Seen:
    return [ctx.attempt, x, y, z]


@app.task(run_in="process")
def after_default(x: int = 1, ctx: Context | None = None, /) -> Seen:
    return [ctx and ctx.attempt, x]


@app.task(run_in="process")
def with_more(x: int = 1, ctx: Context | None = None, /, **more: int) -> Seen:
    return [ctx and ctx.attempt, x, more]


@app.task(run_in="process")
def before_rest(x: int = 1, ctx: Context | None = None, /, *rest: int) -> Seen:
    return [ctx and ctx.attempt, x, list(rest)]


@app.task(run_in="process")
def ordinary_before_rest(x: int = 1, ctx: Context | None = None, *rest: int) -> Seen:
    return [ctx and ctx.attempt, x, list(rest)]


CALLS: list[tuple[Task[..., Seen], tuple[int, ...], dict[str, Any], Seen]] = [
    (first, (5,), {}, [1, 5]),
    (first, (), {"x": 5}, [1, 5]),
    (last, (5,), {}, [1, 5]),
    (among, (5,), {}, [1, 5, 2, 3]),
    (among, (5, 6), {"z": 7}, [1, 5, 6, 7]),
    (after_default, (), {}, [1, 1]),
    (after_default, (5,), {}, [1, 5]),
    (with_more, (), {}, [1, 1, {}]),
    (with_more, (), {"a": 7}, [1, 1, {"a": 7}]),
    (with_more, (5,), {"a": 7}, [1, 5, {"a": 7}]),
    # What a caller gives by the name of a parameter that has no name for callers.
    (with_more, (5,), {"x": 7}, [1, 5, {"x": 7}]),
    (before_rest, (), {}, [1, 1, []]),
    (before_rest, (5, 6, 7), {}, [1, 5, [6, 7]]),
    (ordinary_before_rest, (), {}, [1, 1, []]),
    (ordinary_before_rest, (5, 6, 7), {}, [1, 5, [6, 7]]),
]
TASKS = list(dict.fromkeys(call[0] for call in CALLS))
threads = Headrace("memory://")
THREADED: dict[str, Task[..., Seen]] = {
    task.name: threads.task(run_in="thread")(task.function) for task in TASKS
}


@threads.task
async def caller(which: int) -> Seen:
    """The same call from a job: the context is its own."""
    task, args, kwargs, _ = CALLS[which]
    return THREADED[task.name](*args, **kwargs)


async def test_a_worker_fills_in_a_context_in_a_process() -> None:
    async with app, app.worker(processes=1):
        jobs = [await task.enqueue(*args, **kwargs) for task, args, kwargs, _ in CALLS]
        assert [await job.result(60) for job in jobs] == [call[-1] for call in CALLS]


async def test_a_worker_fills_in_a_context_in_a_thread() -> None:
    calls = [THREADED[task.name].call(*args, **kwargs) for task, args, kwargs, _ in CALLS]
    async with threads, threads.worker():
        jobs = await threads.enqueue_many(calls)
        assert [await job.result(60) for job in jobs] == [call[-1] for call in CALLS]


async def test_so_do_perform_and_a_direct_call_in_a_job() -> None:
    for at, (task, args, kwargs, wanted) in enumerate(CALLS):
        performed = await perform(THREADED[task.name], *args, **kwargs)
        assert performed.result == wanted, performed.error
        called = await perform(caller, at)
        assert called.result == wanted, called.error


def test_a_direct_call_without_a_job_leaves_out_what_can_be_none() -> None:
    assert THREADED["after_default"]() == [None, 1]
    assert THREADED["with_more"](a=7) == [None, 1, {"a": 7}]
    assert THREADED["with_more"](ctx=7) == [None, 1, {"ctx": 7}]
    assert THREADED["before_rest"](5, 6) == [None, 5, [6]]


async def test_async_and_batch_functions_and_subscriptions_take_it_too() -> None:
    app = Headrace("memory://")

    ended: list[Seen] = []

    async def done(ctx: Context, job: Job[Seen], result: Seen, /) -> None:
        ended.append([ctx.attempt, job.id, result])

    @app.task(on_success=done)
    async def plain(ctx: Context, /, x: int) -> Seen:
        return [ctx.attempt, x]

    @app.task(batch=2, max_wait=0.01)
    async def together(ctx: Context, items: list[int], /) -> list[Seen]:
        return [[ctx.attempt, item] for item in items]

    def context_last(items: list[int], ctx: Context, /) -> list[Seen]:
        return [[ctx.attempt, item] for item in items]

    # Not what type checkers know.
    untyped: Any = app.task(batch=2, max_wait=0.01)
    together_too: Task[[int], Seen] = untyped(context_last)

    orders = app.topic("orders", int)
    heard: list[Seen] = []

    @orders.subscribe("bills")
    async def bill(ctx: Context, order: int, delivery: Delivery, /) -> None:
        heard.append([ctx.attempt, order, delivery.attempt])

    async with app, app.worker():
        job = await plain.enqueue(5)
        assert await job.result(60) == [1, 5]
        await until(lambda: ended)
        for task in (together, together_too):
            assert await (await task.enqueue(5)).result(60) == [1, 5]
    assert ended == [[1, job.id, [1, 5]]]
    for task in (together, together_too):
        assert [one.result for one in await perform_batch(task, [5, 6])] == [[1, 5], [1, 6]]
    assert (await perform(bill, 5)).error is None
    assert heard == [[1, 5, 1]]


async def test_an_argument_that_has_no_name_for_callers_is_given_by_its_place() -> None:
    with pytest.raises(ArgumentError, match=r"positional.only.*'x'|'x'.*positional only"):
        THREADED["among"].call(x=5)
    with pytest.raises(ArgumentError, match="'ctx' is filled in by the worker"):
        THREADED["first"].call(5, ctx=None)
