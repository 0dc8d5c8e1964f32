"""A worker's record is there while it beats, and gone after a lease or a clean end."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence

import msgspec
import pytest

from headrace import Headrace
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import Envelope
from headrace.core.workers import WORKERS, WorkerRecord, decode_record
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore
from headrace.testing import ManualClock
from headrace.worker.consume.heartbeat import Heartbeat, StoreClock
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.upkeep.registry import MOST_RUNS, Registry

LEASE = 30.0


def registry(
    store: SqliteStore, clock: ManualClock, held: set[object], runs: Sequence[Run] = ()
) -> Registry:
    return Registry(
        store,
        "worker-1",
        {"mail": 3, "default": 1},
        strict=False,
        concurrency=100,
        threads=8,
        processes=2,
        lease=LEASE,
        held=held,
        now_ms=clock.now_ms,
        runs=lambda: runs,
    )


async def records(store: SqliteStore) -> list[WorkerRecord]:
    found = map(decode_record, (await store.kv_all(WORKERS)).values())
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
    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        raise StoreUnavailable("that node is away")


async def test_a_worker_that_cannot_renew_its_leases_can_still_be_seen(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    lease = 0.3
    store = Troubled("memory://", namespace="test", crash_limit=3, clock=clock)
    await store.open()
    consumer = store.consumer("worker-1", ["mail"], lease)
    consumer.__class__ = Unrenewed
    delivery = LeasedDelivery("mail", 1, b"")
    delivery.leased_at = float("-inf")
    heartbeat = Heartbeat(
        store,
        StoreClock(store, clock),
        lambda: [(consumer, {delivery})],
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
    assert caplog.text.count("the store does not answer") == 1


async def test_a_heartbeat_that_waited_for_the_store_does_not_blame_the_event_loop(
    store: SqliteStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    silent, beats = threading.Event(), 0

    class Waiting(StoreClock):
        async def compare(self) -> None:
            nonlocal beats
            beats += 1
            # In the heartbeat's own thread, for longer than a loop may be blocked.
            silent.wait(2.5 if beats == 1 else 0)

    heartbeat = Heartbeat(store, Waiting(store, clock), list, 0.3, lambda lost: None)
    heartbeat.start()
    while beats < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await heartbeat.stop()
    assert "has been blocked" not in caplog.text


async def test_what_blocks_the_event_loop_is_shown_without_the_worker_around_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, seen = Headrace("memory://", lease=0.6), threading.Event()

    @app.task
    async def block() -> None:
        until_it_is_seen()

    def until_it_is_seen() -> None:
        for _ in range(600):
            if "has been blocked" in caplog.text:
                seen.set()
                return
            time.sleep(0.05)

    async with app, app.worker():
        await (await block.enqueue()).result(60)
    assert seen.is_set()
    (said,) = [each.getMessage() for each in caplog.records if "been blocked" in each.getMessage()]
    places = [line for line in said.splitlines() if line.startswith("  File ")]
    assert [place.rpartition(" in ")[2] for place in places] == ["block", "until_it_is_seen"]


async def test_a_worker_that_leaves_is_gone_at_once(store: SqliteStore, clock: ManualClock) -> None:
    entry = registry(store, clock, set())
    await entry.beat()
    await entry.remove_record()
    assert await records(store) == []


def test_a_record_that_cannot_be_read_is_left_out() -> None:
    assert decode_record(b"\xc1") is None


def begun(key: bytes, ago: float) -> Run:
    """A run that began so many seconds ago."""
    delivery = LeasedDelivery("mail", 1, b"")
    delivery.job_id = key
    run = Run(delivery, RunSettings("worker-1", None, 3, 1000, lambda: 0))
    run.envelope = Envelope(1, key, "send", b"")
    run.started = time.monotonic() - ago
    return run


async def test_a_record_says_what_runs_the_longest_first_and_not_all_of_many(
    store: SqliteStore, clock: ManualClock
) -> None:
    runs = [begun(b"%d" % seconds, seconds) for seconds in range(1, MOST_RUNS + 6)]
    runs[0].started = 0.0
    runs[-1].abandoned = True
    entry = registry(store, clock, set(), runs)
    await entry.beat()
    (record,) = await records(store)
    assert [run.job_id for run in record.runs] == [b"%d" % s for s in range(MOST_RUNS + 4, 4, -1)]
    first = record.runs[0]
    assert (first.queue, first.task) == ("mail", "send")
    assert abs(clock.now_ms() - 1000 * (MOST_RUNS + 4) - first.started_ms) < 1000


def test_a_record_of_an_older_version_can_be_read(clock: ManualClock) -> None:
    old = {
        "name": "w", "host": "h", "pid": 1, "started_ms": 1, "queues": {}, "concurrency": 1,
        "version": "1", "python": "3", "running": 0, "beat_ms": 1,
    }  # fmt: skip
    record = decode_record(msgspec.msgpack.encode(old))
    assert record is not None
    assert record.runs == ()
