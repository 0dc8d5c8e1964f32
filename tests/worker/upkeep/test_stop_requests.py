"""A worker that a person asks to stop."""

from __future__ import annotations

import asyncio

import pytest

from headrace import ConfigError, Context, Headrace
from headrace.core.workers import STOPS
from headrace.worker.worker import Worker


async def ended(running: asyncio.Task[object]) -> None:
    async with asyncio.timeout(30):
        await running


async def listed(app: Headrace, worker: Worker) -> None:
    async with asyncio.timeout(30):
        while worker.name not in [w.name for w in await app.admin.workers()]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_worker_that_is_asked_to_stop_ends_its_jobs_first(app: Headrace) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        begun.set()
        await go.wait()
        return "done"

    worker = app.worker(drain=0.01)
    running = asyncio.create_task(worker.run())
    job = await work.enqueue()
    await begun.wait()
    await listed(app, worker)
    await app.admin.stop_worker(worker.name, drain=True)
    while worker.phase != "stopping":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    later = await work.enqueue()
    assert not running.done()
    go.set()
    await ended(running)
    assert await job.result(timeout=20) == "done"
    assert (await app.admin.queue("default")).waiting == 1, "it takes no more jobs"
    assert await later.cancel()
    assert await app.store.kv_all(STOPS) == {}


async def test_its_jobs_go_back_when_their_time_is_over(app: Headrace) -> None:
    begun = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> int:
        begun.set()
        await asyncio.sleep(3600)
        return ctx.attempt

    worker = app.worker(drain=3600)
    running = asyncio.create_task(worker.run())
    await work.enqueue()
    await begun.wait()
    await listed(app, worker)
    await app.admin.stop_worker(worker.name, drain=0)
    await ended(running)
    assert (await app.admin.queue("default")).waiting == 1


async def test_other_workers_go_on(app: Headrace) -> None:
    @app.task
    async def work() -> int:
        return 1

    first, second = app.worker(), app.worker()
    running = asyncio.create_task(first.run())
    async with second:
        await listed(app, first)
        await app.admin.stop_worker(first.name)
        await ended(running)
        assert second.phase == "working"
        assert await (await work.enqueue()).result(timeout=20) == 1


async def test_a_worker_that_is_not_there_is_an_error(app: Headrace) -> None:
    await app.store.kv_set(STOPS, "died-before", b"?")
    with pytest.raises(ConfigError, match="no worker 'gone' is running"):
        await app.admin.stop_worker("gone")
    assert await app.store.kv_all(STOPS) == {}


@pytest.mark.parametrize("drain", [-1, "soon", float("nan")])
async def test_a_drain_that_cannot_be_is_refused(app: Headrace, drain: float) -> None:
    with pytest.raises(ConfigError, match="drain"):
        await app.admin.stop_worker("any", drain)


async def test_a_request_that_cannot_be_read_stops_too(app: Headrace) -> None:
    worker = app.worker(queues=["default"])
    running = asyncio.create_task(worker.run())
    await listed(app, worker)
    await app.store.kv_set(STOPS, worker.name, b"\xc1")
    await ended(running)
