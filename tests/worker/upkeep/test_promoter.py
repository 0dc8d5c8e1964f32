"""Jobs go on when their time has come, however many they are and whatever other queues do."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.parcel import Parcel
from headrace.errors import StoreMismatch
from headrace.store.contract import Promotion
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock
from headrace.worker.upkeep.promoter import Promoter

LEASE = 30.0


async def send(store: SqliteStore, queue: str, count: int, delay_ms: int) -> None:
    job_ids = [ids.new_id() for _ in range(count)]
    parcels = [
        Parcel(job_id, encode_envelope(job_id, "task", b"\x90"), delay_ms) for job_id in job_ids
    ]
    await store.append(queue, parcels)


class Broken(SqliteConsumer):
    """A consumer that cannot make sense of one queue."""

    async def promote(self, queue: str) -> Promotion:
        if queue == "broken":
            raise StoreMismatch("this is not ours")
        return await super().promote(queue)


async def test_many_jobs_due_at_one_instant_are_promoted_without_a_rest(
    store: SqliteStore, clock: ManualClock
) -> None:
    await send(store, "q", 10_000, 1_000)
    consumer = store.consumer("worker", ["q"], LEASE)
    promoter = Promoter(consumer, ["q"], monotonic=lambda: 100.0)
    clock.advance(2)
    while not await promoter.step():
        pass
    assert (await store.count("q")).waiting == 10_000
    await consumer.close()


async def test_the_trouble_of_one_queue_does_not_make_jobs_of_others_late(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("headrace.store.sqlite.store.SqliteConsumer", Broken)
    queues = ["broken", "q"]
    consumer = store.consumer("worker", queues, LEASE)
    promoter = Promoter(consumer, queues, monotonic=lambda: now)
    await promoter.listen()
    for _ in range(10):
        # The pauses for the trouble grow to their longest.
        now += await promoter.step()
    await send(store, "q", 1, 1_000)
    clock.advance(1.001)
    async with asyncio.timeout(30):
        while not (await store.count("q")).waiting:
            await promoter.step()
    await promoter.close()
    await consumer.close()
