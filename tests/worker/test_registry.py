"""A worker's record is there while it beats, and gone after a lease or a clean end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from headrace.core.delivery import Delivery
from headrace.core.workers import WORKERS, WorkerRecord, decode_record
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock
from headrace.worker.heartbeat import Heartbeat
from headrace.worker.registry import Registry
from headrace.worker.store_clock import StoreClock

LEASE = 30.0


def registry(store: SqliteStore, clock: ManualClock, held: set[object]) -> Registry:
    return Registry(
        store,
        "worker-1",
        {"mail": 3, "default": 1},
        strict=False,
        concurrency=100,
        lease=LEASE,
        held=held,
        now_ms=clock.now_ms,
    )


async def records(store: SqliteStore) -> list[WorkerRecord]:
    found = map(decode_record, (await store.notes(WORKERS)).values())
    return [record for record in found if record is not None]


async def test_a_record_says_who_where_since_when_and_with_what(
    store: SqliteStore, clock: ManualClock
) -> None:
    held: set[object] = set()
    entry = registry(store, clock, held)
    began = clock.now_ms()
    await entry.beat()
    held.add("a job")
    clock.advance(10)
    await entry.beat()
    (record,) = await records(store)
    assert (record.name, record.pid, record.queues) == (
        "worker-1",
        os.getpid(),
        {"mail": 3, "default": 1},
    )
    assert (record.started_ms, record.beat_ms) == (began, began + 10_000)
    assert (record.concurrency, record.running) == (100, 1)
    assert record.host
    assert record.version
    assert record.python


async def test_a_worker_that_died_is_gone_after_a_lease(
    store: SqliteStore, clock: ManualClock
) -> None:
    await registry(store, clock, set()).beat()
    clock.advance(LEASE - 1)
    assert len(await records(store)) == 1
    clock.advance(2)
    assert await records(store) == []


class Troubled(SqliteStore):
    """A real store of which the part that tells the time is away."""

    async def time_ms(self) -> int:
        raise StoreUnavailable("this node is away")


class Unrenewed(SqliteConsumer):
    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        raise StoreUnavailable("that node is away")


async def test_a_worker_that_cannot_renew_its_leases_can_still_be_seen(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    lease = 0.3
    store = Troubled("memory://", namespace="test", crash_limit=3, clock=clock)
    await store.open()
    consumer = store.consumer("worker-1", ["mail"], lease)
    consumer.__class__ = Unrenewed
    delivery = Delivery("mail", 1, b"")
    delivery.leased_at = float("-inf")
    heartbeat = Heartbeat(
        store,
        StoreClock(store, clock),
        consumer,
        {delivery},
        lease,
        lambda lost: None,
        registry(store, clock, set()),
    )
    heartbeat.start()
    while not await records(store):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    (first,) = await records(store)
    clock.advance(5)
    while (await records(store))[0].beat_ms == first.beat_ms:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await heartbeat.stop()
    await store.close()
    assert caplog.text.count("leases cannot be renewed: that node is away") == 1
    assert caplog.text.count("the store's clock cannot be read: this node is away") == 1


async def test_a_worker_that_leaves_is_gone_at_once(store: SqliteStore, clock: ManualClock) -> None:
    entry = registry(store, clock, set())
    await entry.beat()
    await entry.leave()
    assert await records(store) == []


def test_a_record_that_cannot_be_read_is_left_out() -> None:
    assert decode_record(b"\xc1") is None
