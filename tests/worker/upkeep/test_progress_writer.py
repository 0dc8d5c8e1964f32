"""What jobs tell of themselves is written soon, together, in order, and without disturbing them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from headrace.core.bounds import LOG_LINES
from headrace.core.clock import SystemClock
from headrace.core.job import ids
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.outcome import RELEASED
from headrace.core.job.parcel import Parcel
from headrace.core.job.progress import Progress, clean_line, decode_progress
from headrace.errors import StoreUnavailable
from headrace.store.contract import Settlement
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Report
from headrace.worker.upkeep import progress_writer as progress_writer
from headrace.worker.upkeep.progress_writer import Place, ProgressWriter

QUEUE, NOW_MS = "q", 1_700_000_000_000


class Recorded(SqliteStore):
    """A real store that remembers what it was told, and is away when it is said to be."""

    away: frozenset[str] = frozenset()
    written: list[tuple[str, list[Report]]]

    async def report(self, queue: str, reports: Sequence[Report]) -> None:
        self.written.append((queue, list(reports)))
        if queue in self.away:
            raise StoreUnavailable("the store is away")
        await super().report(queue, reports)


@pytest.fixture
async def store() -> AsyncIterator[Recorded]:
    store = Recorded("memory://", namespace="test", crash_limit=3, clock=SystemClock())
    store.written = []
    await store.open()
    yield store
    await store.close()


class Time:
    now = 100.0


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def writer(store: Recorded, time: Time) -> ProgressWriter:
    return ProgressWriter(store, lambda: NOW_MS, monotonic=lambda: time.now)


async def sent(store: Recorded, queue: str = QUEUE) -> Place:
    job_id = ids.new_id()
    await store.append(queue, [Parcel(job_id, encode_envelope(job_id, "task", b"\x90"))])
    return queue, job_id


async def told(store: Recorded, place: Place) -> tuple[Progress | None, list[str]]:
    queue, key = place
    (snapshot,) = await store.get(queue, [key])
    assert snapshot is not None
    return decode_progress(snapshot.progress), (await store.log(queue, key)).lines


async def test_what_a_job_says_is_written_at_once_when_idle(
    store: Recorded, writer: ProgressWriter
) -> None:
    job = await sent(store)
    writer.progress(job, 0.25, "a quarter")
    writer.log(job, ["one", "two"])
    await writer.step()
    assert await told(store, job) == (Progress(0.25, "a quarter", NOW_MS), ["one", "two"])


async def test_of_many_in_a_short_time_the_latest_is_written_once(
    store: Recorded, writer: ProgressWriter, time: Time
) -> None:
    job = await sent(store)
    writer.progress(job, 0.0, "")
    await writer.step()
    for percent in range(100):
        writer.progress(job, percent / 100, "")
        assert await writer.step() > 0
    time.now += 1
    await writer.step()
    progress, _ = await told(store, job)
    assert (progress and progress.fraction, len(store.written)) == (0.99, 2)


async def test_jobs_of_one_queue_share_a_write(store: Recorded, writer: ProgressWriter) -> None:
    jobs = [await sent(store) for _ in range(5)]
    for job in jobs:
        writer.log(job, ["begun"])
    await writer.step()
    assert [len(reports) for _, reports in store.written] == [5]


async def test_what_could_not_be_written_is_kept_before_what_came_later(
    store: Recorded, writer: ProgressWriter, time: Time
) -> None:
    job = await sent(store)
    writer.progress(job, 0.1, "")
    writer.log(job, ["first"])
    store.away = frozenset({QUEUE})
    with pytest.raises(StoreUnavailable):
        await writer.step()
    writer.log(job, ["second"])
    store.away = frozenset()
    time.now += 1
    await writer.step()
    assert await told(store, job) == (Progress(0.1, "", NOW_MS), ["first", "second"])


async def test_the_trouble_of_one_queue_does_not_hold_back_others(
    store: Recorded, writer: ProgressWriter
) -> None:
    here, there = await sent(store), await sent(store, "other")
    store.away = frozenset({QUEUE})
    for job in (here, there):
        writer.log(job, ["a line"])
    with pytest.raises(StoreUnavailable):
        await writer.step()
    assert (await told(store, there))[1] == ["a line"]


async def test_of_too_many_lines_the_oldest_are_left_out_and_a_note_says_so(
    store: Recorded, writer: ProgressWriter
) -> None:
    job = await sent(store)
    for number in range(LOG_LINES + 500):
        writer.log(job, [str(number)])
    await writer.step()
    _, lines = await told(store, job)
    assert lines[0] == "(501 lines were left out here)"
    assert lines[1:] == [str(number) for number in range(501, LOG_LINES + 500)]


async def test_a_store_that_is_away_does_not_fill_the_memory(
    store: Recorded, writer: ProgressWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_writer, "MOST_WAITING", 1_000)
    first, second = await sent(store), await sent(store)
    writer.log(first, ["x" * 300] * 3)
    writer.log(second, ["y" * 300] * 2)
    await writer.step()
    assert (await told(store, first))[1] == ["(3 lines were left out here)"]
    assert (await told(store, second))[1] == ["y" * 300] * 2


def test_a_long_line_is_cut_with_a_mark() -> None:
    line = clean_line("x" * 10_000)
    assert len(line) == 4_096
    assert line.endswith("… (cut: 10,000 characters)")
    assert clean_line("half a \ud83d") == "half a ?"


async def test_before_a_job_ends_its_last_words_are_written(
    store: Recorded, writer: ProgressWriter
) -> None:
    ending, other = await sent(store), await sent(store)
    consumer = store.consumer("worker", {QUEUE: 1}, 30.0)
    deliveries = {d.envelope: d for d in await consumer.fetch(2, 0)}
    (delivery,) = [d for envelope, d in deliveries.items() if ending[1] in envelope]
    delivery.job_id = ending[1]
    writer.log(ending, ["goodbye"])
    writer.log(other, ["not yet"])
    await writer.before_settling(QUEUE, [Settlement(delivery, RELEASED)])
    assert (await told(store, ending))[1] == ["goodbye"]
    assert (await told(store, other))[1] == []
    await consumer.close()


async def test_words_that_cannot_be_written_do_not_keep_a_job_from_its_end(
    store: Recorded, writer: ProgressWriter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    job = await sent(store)
    writer.log(job, ["goodbye"])
    store.away = frozenset({QUEUE})
    await writer.flush({job})
    assert "cannot be written: the store is away" in caplog.text


async def test_a_thread_wakes_the_service(store: Recorded) -> None:
    job = await sent(store)
    writer = ProgressWriter(store, lambda: NOW_MS)
    notified = asyncio.Event()
    handle = await store.on_reports(QUEUE, lambda keys: notified.set())
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(0)
    thread = threading.Thread(target=writer.log, args=(job, ["from a thread"]))
    thread.start()
    await asyncio.wait_for(notified.wait(), 30)
    assert (await told(store, job))[1] == ["from a thread"]
    thread.join()
    writer.stop()
    await running
    await handle.close()
