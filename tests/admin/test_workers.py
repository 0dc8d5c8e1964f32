"""`app.admin.workers()` and `schedules()`."""

from __future__ import annotations

import os

from headrace import Headrace
from headrace.core.workers import (
    SUPERVISORS,
    WORKERS,
    Scaled,
    SupervisorRecord,
    encode_record,
)


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


async def test_what_cannot_be_read_is_no_worker(app: Headrace) -> None:
    await (await app.session()).store.note(WORKERS, "odd", b"\xc1", ttl=60)
    assert await app.admin.workers() == []


async def test_supervisors_say_how_many_processes_they_have_and_why(app: Headrace) -> None:
    store = (await app.session()).store
    processes = Scaled(3, 1, 8, 300, ups={"backlog": 2}, last="1 -> 3 (backlog: …)")
    record = SupervisorRecord("host", 7, processes)
    await store.note(SUPERVISORS, "host-7", encode_record(record), ttl=60)
    await store.note(SUPERVISORS, "odd", b"\xc1", ttl=60)
    assert await app.admin.supervisors() == [record]


async def test_schedules_are_those_of_the_app(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    await app.schedules.upsert("nightly", work.call(), cron="0 3 * * *")
    assert [schedule.name for schedule in await app.admin.schedules()] == ["nightly"]
    assert await app.admin.schedules() == await app.schedules.list()
