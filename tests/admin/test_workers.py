"""`app.admin.workers()` and `schedules()`."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from headrace import Headrace
from headrace.admin import RunInfo
from headrace.core.workers import SUPERVISORS, WORKERS, Scaled, SupervisorRecord, encode_record


async def test_a_worker_is_listed_while_it_runs(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    async with app.worker(queues={"mail": 3, "default": 1}, concurrency=7):
        await (await work.enqueue()).result(timeout=10)
        (worker,) = await app.admin.workers()
    assert worker.pid == os.getpid()
    assert (worker.queues, worker.strict) == ({"mail": 3, "default": 1}, False)
    assert (worker.concurrency, worker.running) == (7, worker.running)
    assert worker.started <= worker.last_beat
    assert await app.admin.workers() == []


async def runs_of(app: Headrace, count: int) -> tuple[RunInfo, ...]:
    """What the one worker says it runs, once that is so many."""
    async with asyncio.timeout(10):
        while True:
            workers = await app.admin.workers()
            if workers and len(workers[0].runs) == count:
                return workers[0].runs
            await asyncio.sleep(0.02)


async def test_a_worker_says_what_it_runs_also_from_batches_and_topics(app: Headrace) -> None:
    go, orders = asyncio.Event(), app.topic("orders", str)

    @app.task(name="single")
    async def single() -> None:
        await go.wait()

    @app.task(name="batch", batch=2, queue="other")
    async def batch(numbers: list[int]) -> None:
        await go.wait()

    @orders.subscribe("billing")
    async def bill(order: str) -> None:
        await go.wait()

    async with app.worker():
        job = await single.enqueue()
        await app.enqueue_many([batch.call(1), batch.call(2)])
        event = await orders.publish("o-1")
        runs = await runs_of(app, 4)
        assert [(run.queue, run.task) for run in sorted(runs, key=lambda run: run.queue)] == [
            ("billing@orders", "@orders"), ("default", "single"), *[("other", "batch")] * 2,
        ]  # fmt: skip
        assert {job.id, event} <= {run.id for run in runs}
        assert [run.started for run in runs] == sorted(run.started for run in runs)
        go.set()
        await runs_of(app, 0)


async def test_what_blocks_the_loop_of_a_worker_is_seen_to_run(tmp_path: Path) -> None:
    url, seen = f"sqlite:///{tmp_path}/jobs.db", threading.Event()
    app = Headrace(url, lease=0.6)

    @app.task(name="block")
    async def block() -> None:
        seen.wait(20)

    def look() -> list[RunInfo]:
        async def ask() -> list[RunInfo]:
            async with Headrace(url) as other:
                return list(await runs_of(other, 1))

        try:
            return asyncio.run(ask())
        finally:
            seen.set()

    async with app, app.worker():
        job = await block.enqueue()
        looking = asyncio.get_running_loop().run_in_executor(None, look)
        (run,) = await looking
    assert (run.id, run.task) == (job.id, "block")


async def test_what_cannot_be_read_is_no_worker(app: Headrace) -> None:
    await (await app.session()).store.kv_set(WORKERS, "odd", b"\xc1", ttl=60)
    assert await app.admin.workers() == []


async def test_supervisors_say_how_many_processes_they_have_and_why(app: Headrace) -> None:
    store = (await app.session()).store
    processes = Scaled(3, 1, 8, 300, ups={"backlog": 2}, last="1 -> 3 (backlog: …)")
    record = SupervisorRecord("host", 7, processes)
    await store.kv_set(SUPERVISORS, "host-7", encode_record(record), ttl=60)
    await store.kv_set(SUPERVISORS, "odd", b"\xc1", ttl=60)
    assert await app.admin.supervisors() == [record]


async def test_schedules_are_those_of_the_app(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    await app.schedules.upsert("nightly", work.call(), cron="0 3 * * *")
    assert [schedule.name for schedule in await app.admin.schedules()] == ["nightly"]
    assert await app.admin.schedules() == await app.schedules.list()
