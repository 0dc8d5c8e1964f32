"""Cancelling: a job that has not begun never does, one that runs is ended. On every store."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import pytest

from headrace import Context, Headrace, JobCancelled, State


async def test_a_waiting_job_is_cancelled_and_never_starts(app: Headrace) -> None:
    ran: list[int] = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    first, second = await app.enqueue_many([note.call(1), note.call(2)])
    assert await first.cancel()
    async with app.worker():
        await second.result(30)
        with pytest.raises(JobCancelled):
            await first.result(30)
    assert ran == [2]


async def test_a_running_job_is_cancelled_and_cleans_up(app: Headrace) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.set()

    async with app.worker():
        job = await long.enqueue()
        await begun.wait()
        assert await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(30)
        assert cleaned.is_set()
        assert await job.status() is State.CANCELLED


async def test_a_thread_is_cancelled_wherever_it_is(app: Headrace) -> None:
    begun, cleaned = threading.Event(), threading.Event()

    @app.task
    def long(ctx: Context) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.001)
        finally:
            assert ctx.cancelled
            cleaned.set()

    async with app.worker():
        job = await long.enqueue()
        await asyncio.to_thread(begun.wait)
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(30)
    assert cleaned.is_set()


async def test_a_job_that_ends_by_itself_first_is_done(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "all done anyway"
        return ""

    async with app.worker():
        job = await stubborn.enqueue()
        await begun.wait()
        await job.cancel()
        assert await job.result(30) == "all done anyway"


async def test_a_job_with_the_id_of_one_that_was_asked_to_end_runs(app: Headrace) -> None:
    runs: list[asyncio.Event] = [asyncio.Event() for _ in range(5)]
    begun = iter(runs)

    @app.task(result_ttl=0)
    async def stubborn() -> None:
        run = next(begun)
        run.set()
        if run is not runs[-1]:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    async with app.worker():
        for run in runs:
            # As soon as the store has forgotten the one before, whose result is not kept.
            while not run.is_set():
                job = await stubborn.options(id="the-same").enqueue()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(run.wait(), 0.05)
            if run is not runs[-1]:
                assert await job.cancel()
    assert all(run.is_set() for run in runs)


async def test_cancelling_twice_is_cancelling_once(app: Headrace) -> None:
    @app.task
    async def note() -> str:
        return "noted"

    job = await note.enqueue()
    assert [await job.cancel(), await job.cancel()] == [True, True]
    async with app.worker():
        done = await note.enqueue()
        assert await done.result(30) == "noted"
        assert await done.cancel() is False
