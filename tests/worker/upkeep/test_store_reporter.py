"""What was done is noted, also while the store is away or the run is being cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.client.once import Once
from headrace.core.clock import SystemClock
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.store import SqliteStore
from headrace.worker.upkeep.progress_writer import ProgressWriter
from headrace.worker.upkeep.store_reporter import StoreReporter, StoreReporters

QUEUE = "q"


class Hesitant(SqliteStore):
    """A real store that is away a few times when something is to be noted, or takes its time."""

    failures = 0
    asked: asyncio.Event
    answering: asyncio.Event

    async def once_set(self, queue: str, job_id: JobId, name: str, value: bytes) -> None:
        self.asked.set()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the store is away")
        await self.answering.wait()
        await super().once_set(queue, job_id, name, value)


@pytest.fixture
async def store() -> AsyncIterator[Hesitant]:
    store = Hesitant("memory://", namespace="test", crash_limit=3, clock=SystemClock())
    store.asked, store.answering = asyncio.Event(), asyncio.Event()
    store.answering.set()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def job_id(store: Hesitant) -> JobId:
    job_id = ids.new_id()
    await store.append(QUEUE, [Parcel(job_id, encode_envelope(job_id, "task", b"\x90"))])
    return job_id


def reporter(store: Hesitant, job_id: JobId, patience: float = 30.0) -> StoreReporter:
    return StoreReporters(store, ProgressWriter(store, lambda: 0), patience).of(QUEUE, job_id)


async def block(reporter: StoreReporter) -> bool:
    once: Once[Any] = Once(reporter, "charge", Any)
    async with once:
        pass
    return once.first


async def test_a_store_that_is_away_is_asked_again(store: Hesitant, job_id: JobId) -> None:
    store.failures = 2
    speaking = reporter(store, job_id)
    assert [await block(speaking), await block(speaking)] == [True, False]


async def test_a_store_that_stays_away_fails_the_block(store: Hesitant, job_id: JobId) -> None:
    store.failures = 1000
    with pytest.raises(StoreUnavailable):
        await block(reporter(store, job_id, patience=0.1))


async def test_a_run_that_is_cancelled_while_it_notes_ends_after_it_has(
    store: Hesitant, job_id: JobId
) -> None:
    store.answering.clear()
    run = asyncio.create_task(block(reporter(store, job_id)))
    await asyncio.wait_for(store.asked.wait(), 30)
    run.cancel()
    await asyncio.sleep(0)
    store.answering.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert "charge" in await store.once_all(QUEUE, job_id)


async def test_a_thread_that_outlives_its_worker_is_reported(
    store: Hesitant, job_id: JobId
) -> None:
    reporters: list[StoreReporter] = []

    async def worker() -> None:
        reporters.append(reporter(store, job_id))

    thread = threading.Thread(target=lambda: asyncio.run(worker()))
    thread.start()
    await asyncio.to_thread(thread.join)
    with pytest.raises(StoreUnavailable, match="the worker has ended"):
        await asyncio.to_thread(reporters[0].recall_sync, "charge")
