"""Which workers run: on every store."""

from __future__ import annotations

import asyncio

from headrace import Headrace
from headrace.core.workers import WORKERS, WorkerRecord, decode_record


async def records(app: Headrace) -> dict[str, WorkerRecord]:
    found = {n: decode_record(data) for n, data in (await app.store.kv_all(WORKERS)).items()}
    return {name: record for name, record in found.items() if record is not None}


async def test_a_running_worker_can_be_seen_and_one_that_has_ended_is_gone(app: Headrace) -> None:
    async with app.worker(queues={"mail": 2, "default": 1}, concurrency=7) as worker:
        record = (await records(app))[worker.name]
        assert record.queues == {"mail": 2, "default": 1}
        assert (record.concurrency, record.running) == (7, 0)
    assert await records(app) == {}


async def test_a_worker_beats_for_longer_than_a_lease_and_says_what_it_holds(
    app: Headrace,
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        begun.set()
        await go.wait()

    async with app.worker() as worker:
        first = (await records(app))[worker.name]
        await hold.enqueue()
        await begun.wait()
        record = first
        while record.beat_ms < first.beat_ms + 2 * app.lease * 1000 or not record.running:
            await asyncio.sleep(0.05)
            # Gone, if the machine stood still for longer than it is kept; the next beat writes it.
            record = (await records(app)).get(worker.name, record)
        assert (record.started_ms, record.running) == (first.started_ms, 1)
        go.set()
