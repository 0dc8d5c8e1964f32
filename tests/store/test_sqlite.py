"""What the SQLite store promises beyond, and on the way to, the contract of all stores."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from headrace.core.bounds import DEAD_KEPT_DAYS
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.history_rules import HistoryBounds, QueueRetention
from headrace.core.job.ids import to_id
from headrace.core.job.outcome import DONE, RELEASED, Dead, Done, Retried
from headrace.core.job.parcel import Parcel, Tick
from headrace.core.job.state import State
from headrace.core.job.verdict import Verdict, decode_verdict, encode_verdict
from headrace.errors import (
    ConfigError,
    StoreFull,
    StoreMismatch,
    StoreUnavailable,
)
from headrace.store.contract import Settlement, reclaim_every
from headrace.store.sqlite.connection import errors, schema
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Counts, IdempotencyKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from headrace.core.job.delivery import LeasedDelivery
    from headrace.core.job.ids import JobId
    from headrace.core.job.outcome import Outcome
    from headrace.store.sqlite.connection.signals import Notification
    from headrace.store.sqlite.consumer import SqliteConsumer

LEASE = 30.0
LEASE_MS = 30_000
EVERY_MS = round(reclaim_every(LEASE) * 1000)
NOW_MS = 1_700_000_000_000
VERDICT = encode_verdict(Verdict(State.DONE, b"\x01"))


class ManualClock:
    def __init__(self) -> None:
        self._now_ms = NOW_MS

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def store(path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    store = make_store(f"sqlite:///{path}", clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(path: Path, clock: ManualClock, store: SqliteStore) -> AsyncIterator[SqliteStore]:
    """A second way to the same file, as another process would have."""
    other = make_store(f"sqlite:///{path}", clock)
    await other.open()
    yield other
    await other.close()


@pytest.fixture
def consumer(store: SqliteStore) -> SqliteConsumer:
    return store.consumer("w1", ["q"], LEASE)


def make_store(url: str, clock: ManualClock, namespace: str = "test") -> SqliteStore:
    return SqliteStore(url, namespace=namespace, crash_limit=3, clock=clock)


def parcel(name: str, *, delay_ms: int | None = None, at_ms: int | None = None) -> Parcel:
    job_id = to_id(name)
    return Parcel(job_id, encode_envelope(job_id, "task", b"\x90"), delay_ms, at_ms)


def parcels(names: str) -> list[Parcel]:
    return [parcel(name) for name in names.split()]


def key(name: str) -> JobId:
    return to_id(name)


def names(deliveries: Sequence[LeasedDelivery]) -> str:
    by_envelope = {parcel(c).envelope: c for c in "abcdefghij"}
    return " ".join(by_envelope[delivery.envelope] for delivery in deliveries)


def all_as(outcome: Outcome, deliveries: Sequence[LeasedDelivery]) -> list[Settlement]:
    return [Settlement(delivery, outcome) for delivery in deliveries]


async def state_of(store: SqliteStore, name: str) -> State | None:
    [snapshot] = await store.get("q", [key(name)])
    return snapshot.state if snapshot else None


def written(path: Path, data: bytes) -> bytes:
    path.write_bytes(data)
    return data


def content(path: Path) -> bytes:
    return path.read_bytes()


async def run_sql(store: SqliteStore, sql: str) -> None:
    """Run a statement on the store's own connection."""

    def run(connection: sqlite3.Connection) -> None:
        connection.execute(sql).fetchall()

    await store._database.read(run)


class TestUrl:
    @pytest.mark.parametrize(
        "url",
        ["sqlite://foo", "sqlite://", "sqlite:///", "sqlite:////", "sqlite:///a?mode=ro",
         "sqlite:///:memory:", "memory://name", "memory:", "jobs.db"],
    )  # fmt: skip
    def test_what_names_no_file_is_refused(self, url: str, clock: ManualClock) -> None:
        with pytest.raises(ConfigError, match=r"sqlite:///file\.db"):
            make_store(url, clock)

    async def test_three_slashes_are_relative_to_the_working_directory(
        self, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        store = make_store("sqlite:///near.db", clock)
        await store.open()
        await store.close()
        assert (tmp_path / "near.db").exists()


class TestFile:
    async def test_only_the_owner_may_read_it(self, path: Path, store: SqliteStore) -> None:
        await store.append("q", parcels("a"))
        for file in (path, path.with_name("jobs.db-wal"), path.with_name("jobs.db-shm")):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600

    async def test_only_the_owner_may_read_it_when_made_through_links(
        self, tmp_path: Path, clock: ManualClock
    ) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "near.db").symlink_to(tmp_path / "far.db")
        (tmp_path / "far.db").symlink_to(tmp_path / "data" / "jobs.db")
        store = make_store(f"sqlite:///{tmp_path}/near.db", clock)
        await store.open()
        await store.append("q", parcels("a"))
        modes = {
            file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "data").iterdir()
        }
        await store.close()
        assert modes == dict.fromkeys(("jobs.db", "jobs.db-wal", "jobs.db-shm"), 0o600)

    @pytest.mark.parametrize(
        ("mode", "says"),
        [
            (0o666, "has the mode 0666: every user of this machine can read and change its jobs"),
            (0o602, "has the mode 0602: every user of this machine can read and change its jobs"),
            (0o644, "has the mode 0644: every user of this machine can read its jobs"),
            (0o660, ""),
            (0o600, ""),
        ],
    )
    async def test_a_file_that_every_user_may_open_is_a_risk(
        self, tmp_path: Path, clock: ManualClock, mode: int, says: str
    ) -> None:
        file = tmp_path / "it's.db"
        file.touch()
        file.chmod(mode)
        store = make_store(f"sqlite:///{file}", clock)
        await store.open()
        risks = (await store.describe()).risks
        assert [says in risk for risk in risks] == ([True] if says else [])
        if says:
            file.chmod(0o600)
            # They were made with the mode that the file had.
            assert "it's.db-wal has the mode" in "".join((await store.describe()).risks)
            shell = await asyncio.create_subprocess_shell(risks[0].partition("end that with ")[2])
            assert await shell.wait() == 0
            assert (await store.describe()).risks == ()
        await store.close()

    async def test_a_disk_without_room_is_a_risk(
        self, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert (await store.describe()).risks == ()
        monkeypatch.setattr(errors, "_LITTLE_ROOM", shutil.disk_usage(path).total + 1)
        (risk,) = (await store.describe()).risks
        assert risk.startswith(f"{path}: its disk has no room left; until there is some, ")
        assert "waiting jobs cannot be worked off" in risk

    async def test_commits_are_flushed_to_disk(self, store: SqliteStore) -> None:
        def settings(connection: sqlite3.Connection) -> tuple[str, int]:
            journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
            return journal, connection.execute("PRAGMA synchronous").fetchone()[0]

        assert await store._database.read(settings) == ("wal", 2)

    async def test_a_missing_directory_is_named(self, tmp_path: Path, clock: ManualClock) -> None:
        store = make_store(f"sqlite:///{tmp_path}/none/jobs.db", clock)
        with pytest.raises(StoreMismatch, match=r"none/jobs\.db .*directory must exist"):
            await store.open()

    async def test_a_directory_is_not_a_file(self, tmp_path: Path, clock: ManualClock) -> None:
        store = make_store(f"sqlite:///{tmp_path}", clock)
        with pytest.raises(StoreMismatch, match=str(tmp_path)):
            await store.open()

    async def test_what_is_no_database_is_left_alone(self, path: Path, clock: ManualClock) -> None:
        diary = written(path, b"dear diary, " * 1000)
        with pytest.raises(StoreMismatch, match=r"jobs\.db is not an SQLite file"):
            await make_store(f"sqlite:///{path}", clock).open()
        assert content(path) == diary

    async def test_a_database_of_another_program_is_left_alone(
        self, path: Path, clock: ManualClock
    ) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        before = content(path)
        with pytest.raises(StoreMismatch, match="another program"):
            await make_store(f"sqlite:///{path}", clock).open()
        assert content(path) == before

    async def test_a_newer_file_asks_for_an_upgrade(self, path: Path, clock: ManualClock) -> None:
        store = make_store(f"sqlite:///{path}", clock)
        await store.open()
        await store.close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        with pytest.raises(StoreMismatch, match="upgrade headrace"):
            await store.open()

    async def test_open_may_be_tried_again(self, tmp_path: Path, clock: ManualClock) -> None:
        store = make_store(f"sqlite:///{tmp_path}/late/jobs.db", clock)
        with pytest.raises(StoreMismatch):
            await store.open()
        (tmp_path / "late").mkdir()
        await store.open()
        assert await store.append("q", parcels("a")) == {}
        await store.close()

    async def test_many_may_make_it_at_once(self, path: Path, clock: ManualClock) -> None:
        stores = [make_store(f"sqlite:///{path}", clock) for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(store.close() for store in stores))


class TestTrouble:
    async def test_a_full_disk_stores_nothing_and_is_survived(self, store: SqliteStore) -> None:
        await store.append("q", parcels("a"))
        await run_sql(store, "PRAGMA max_page_count = 1")  # Means: no more than there are.
        big = Parcel(key("b"), bytes(1_000_000))
        with pytest.raises(StoreFull, match=r"jobs\.db: no room left .* cannot be worked off"):
            await store.append("q", [*parcels("c"), big])
        await run_sql(store, "PRAGMA max_page_count = 1000000")
        assert await state_of(store, "c") is None
        assert await store.append("q", [*parcels("c"), big]) == {}

    async def test_a_repeat_after_a_try_that_was_cancelled_gets_its_answer(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        """Nobody waits for the try any more, and it is carried out all the same."""
        await store.append("q", parcels("a"))
        (delivery,) = await consumer.fetch(1, 0)
        done, once = [Settlement(delivery, DONE)], IdempotencyKey()
        gate = threading.Event()
        blocked = asyncio.ensure_future(store._database.read(lambda _: gate.wait(10)))
        await asyncio.sleep(0)
        first = asyncio.ensure_future(consumer.settle("q", done, idempotency=once))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        gate.set()
        assert first.cancelled()
        assert await consumer.settle("q", done, repeat=True, idempotency=once) == []
        assert await store.count("q") == Counts()
        await blocked

    async def test_one_request_that_fails_does_not_undo_the_others(
        self, store: SqliteStore
    ) -> None:
        await store.append("q", parcels("a"))
        gate = threading.Event()
        blocked = asyncio.ensure_future(store._database.read(lambda _: gate.wait(10)))

        def fail(connection: sqlite3.Connection, _: list[Notification]) -> None:
            connection.execute("DELETE FROM jobs")
            raise ZeroDivisionError

        together = asyncio.gather(
            store.append("q", parcels("b")),
            store._database.write(fail),
            store.append("q", parcels("c")),
            return_exceptions=True,
        )
        await asyncio.sleep(0)
        gate.set()
        first, failed, last = await together
        await blocked
        assert (first, last) == ({}, {})
        assert isinstance(failed, ZeroDivisionError)
        assert (await store.count("q")).waiting == 3

    async def test_a_lock_held_too_long_is_unavailable(
        self, path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "BUSY_SECONDS", 0.001)
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"jobs\.db: another process"):
                await store.append("q", parcels("a"))
            locker.execute("ROLLBACK")
        assert await store.append("q", parcels("a")) == {}

    async def test_a_write_that_waits_for_the_file_holds_up_no_reads(
        self, path: Path, store: SqliteStore
    ) -> None:
        await store.append("q", parcels("a"))
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN IMMEDIATE")
            waiting = [asyncio.ensure_future(store.append("q", parcels("b")))]
            await asyncio.sleep(0)
            reading = asyncio.ensure_future(store.count("q"))
            assert await state_of(store, "a") is State.WAITING
            assert await reading == Counts(waiting=1)
            waiting.append(asyncio.ensure_future(store.append("q", parcels("c"))))
            await asyncio.sleep(0)
            assert await state_of(store, "b") is None
            assert [each.done() for each in waiting] == [False, False]
            locker.execute("ROLLBACK")
        assert await asyncio.gather(*waiting) == [{}, {}]
        assert (await store.count("q")).waiting == 3

    async def test_a_store_that_is_closed_first_writes_what_waits_for_the_file(
        self, path: Path, clock: ManualClock
    ) -> None:
        store = make_store(f"sqlite:///{path}", clock)
        await store.open()
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN IMMEDIATE")
            writing = asyncio.ensure_future(store.append("q", parcels("a")))
            await asyncio.sleep(0)
            closing_it = asyncio.ensure_future(store.close())
            # The thread has met the lock by now, and the end after it.
            await asyncio.sleep(0.05)
            assert [writing.done(), closing_it.done()] == [False, False]
            locker.execute("ROLLBACK")
        await closing_it
        assert await writing == {}
        await store.open()
        assert await state_of(store, "a") is State.WAITING
        await store.close()

    async def test_idle_workers_and_readers_take_no_lock(
        self,
        path: Path,
        store: SqliteStore,
        consumer: SqliteConsumer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await store.append("q", [parcel("a", delay_ms=60_000)])
        await consumer.reclaim("q", 10, last_chance=True)
        monkeypatch.setattr(schema, "BUSY_SECONDS", 0.001)
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN IMMEDIATE")
            assert await consumer.fetch(10, 0) == []
            assert await consumer.reclaim("q", 10, last_chance=True) == []
            assert (await consumer.promote("q")).next_in == 60.001
            assert await state_of(store, "a") is State.SCHEDULED

    async def test_a_closed_store_says_so(self, path: Path, clock: ManualClock) -> None:
        store = make_store(f"sqlite:///{path}", clock)
        with pytest.raises(StoreUnavailable, match="open"):
            await store.append("q", parcels("a"))


class TestSharing:
    async def test_requests_of_one_moment_share_a_commit(self, store: SqliteStore) -> None:
        await store.append("q", parcels("a"))
        statements: list[str] = []
        await store._database.read(lambda c: c.set_trace_callback(statements.append))
        begun, gate = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            begun.set()
            gate.wait(60)

        blocked = asyncio.ensure_future(store._database.read(hold))
        # Else its thread might begin with this read and some of the appends.
        await asyncio.to_thread(begun.wait)
        together = asyncio.gather(*(store.append("q", [parcel(f"{i}")]) for i in range(100)))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(together, blocked)
        await store._database.read(lambda c: c.set_trace_callback(None))
        assert statements.count("BEGIN IMMEDIATE") == 1

    async def test_several_loops_use_one_store(self, store: SqliteStore) -> None:
        async def elsewhere() -> dict[int, JobId]:
            await store.open()
            added = await store.append("q", parcels("a b"))
            await store.close()
            return added

        assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == {}
        assert (await store.count("q")).waiting == 2

    async def test_the_last_close_ends_the_thread(self, path: Path, clock: ManualClock) -> None:
        # What others in this process have open is theirs.
        before = set(threading.enumerate())
        store = make_store(f"sqlite:///{path}", clock)
        await store.open()
        await store.open()
        await store.append("q", parcels("a"))
        assert "headrace-sqlite" in {thread.name for thread in set(threading.enumerate()) - before}
        await store.close()
        assert set(threading.enumerate()) <= before
        assert not path.with_name("jobs.db-wal").exists()

    async def test_namespaces_see_nothing_of_each_other(
        self, path: Path, store: SqliteStore, clock: ManualClock
    ) -> None:
        neighbour = make_store(f"sqlite:///{path}", clock, namespace="neighbour")
        await neighbour.open()
        await store.append("q", parcels("a"))
        assert await neighbour.queues() == []
        assert await neighbour.get("q", [key("a")]) == [None]
        assert await neighbour.append("q", parcels("a")) == {}
        assert len(await neighbour.consumer("n", ["q"], LEASE).fetch(10, 0)) == 1
        assert await state_of(store, "a") is State.WAITING
        await neighbour.close()

    async def test_memory_is_kept_while_the_store_lives(self, clock: ManualClock) -> None:
        store = make_store("memory://", clock)
        await store.open()
        await store.append("q", parcels("a"))
        await store.close()
        await store.open()
        assert await state_of(store, "a") is State.WAITING
        await store.close()
        another = make_store("memory://", clock)
        await another.open()
        assert await another.queues() == []
        await another.close()


class TestAppend:
    async def test_a_known_id_is_left_as_it_is(self, store: SqliteStore) -> None:
        assert await store.append("q", parcels("a b")) == {}
        again = [Parcel(key("b"), b"other"), *parcels("c c")]
        assert await store.append("q", again) == {0: key("b"), 2: key("c")}
        [snapshot] = await store.get("q", [key("b")], bodies=True)
        assert snapshot is not None
        assert snapshot.envelope == parcel("b").envelope

    async def test_an_ended_job_is_known_while_its_verdict_is_kept(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a"))
        held = await consumer.fetch(1, 0)
        await consumer.settle("q", all_as(Done(VERDICT, ttl_ms=1000), held))
        assert await store.append("q", parcels("a b"), may_exist=True) == {0: key("a")}
        clock.advance(1000)
        assert await store.append("q", parcels("a"), may_exist=True) == {}

    async def test_any_number_of_jobs_keeps_its_order(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        many = [parcel(f"{i}") for i in range(1371)]
        assert await store.append("q", many) == {}
        taken = await consumer.fetch(2000, 0)
        assert [delivery.envelope for delivery in taken] == [p.envelope for p in many]

    async def test_due_times(self, store: SqliteStore) -> None:
        later = [parcel("a", delay_ms=5), parcel("b", at_ms=NOW_MS + 7)]
        at_once = [parcel("c", delay_ms=0), parcel("d", at_ms=NOW_MS), parcel("e", at_ms=1)]
        await store.append("q", [*later, *at_once, parcel("f", delay_ms=2**70)])
        snapshots = await store.get("q", [key(c) for c in "abcdef"])
        assert [s.due_ms for s in snapshots[:2] if s] == [NOW_MS + 6, NOW_MS + 7]
        assert [s.state for s in snapshots[2:5] if s] == [State.WAITING] * 3
        assert snapshots[5] is not None
        assert snapshots[5].state is State.SCHEDULED

    async def test_queues_are_those_ever_sent_to(self, store: SqliteStore) -> None:
        await store.append("z", parcels("a"))
        await store.append("q", parcels("a"))
        assert await store.append("never", []) == {}
        assert await store.queues() == ["q", "z"]

    async def test_time_is_the_clocks(self, store: SqliteStore, clock: ManualClock) -> None:
        clock.advance(12)
        assert await store.time_ms() == NOW_MS + 12


class TestFetch:
    async def test_a_job_goes_to_one_worker(
        self, store: SqliteStore, other: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b c"))
        second = other.consumer("w2", ["q"], LEASE)
        mine, yours = await asyncio.gather(consumer.fetch(2, 0), second.fetch(2, 0))
        assert sorted(names([*mine, *yours]).split()) == ["a", "b", "c"]
        assert [d.count for d in mine] == [1] * len(mine)
        [snapshot] = await store.get("q", [key(names(mine)[0])])
        assert snapshot is not None
        assert (snapshot.state, snapshot.worker, snapshot.deliveries) == (State.RUNNING, "w1", 1)

    async def test_a_full_queue_starves_no_other(self, store: SqliteStore) -> None:
        consumer = store.consumer("w1", ["q", "r"], LEASE)
        await store.append("q", parcels("a b c d"))
        await store.append("r", parcels("e f g h"))
        taken = [(await consumer.fetch(1, 0))[0].queue for _ in range(4)]
        assert sorted(taken) == ["q", "q", "r", "r"]
        assert len(await consumer.fetch(10, 0)) == 4

    async def test_waiting_ends_with_an_append(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        fetching = asyncio.create_task(consumer.fetch(10, 60))
        await listened(store)
        await store.append("q", parcels("a"))
        assert names(await asyncio.wait_for(fetching, 10)) == "a"
        assert not store._database.signals

    async def test_waiting_ends_with_an_append_through_another_connection(
        self, store: SqliteStore, other: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        fetching = asyncio.create_task(consumer.fetch(10, 60))
        await listened(store)
        await other.append("unrelated", parcels("b"))
        await other.append("q", parcels("a"))
        assert names(await asyncio.wait_for(fetching, 10)) == "a"

    async def test_waiting_ends_when_interrupted(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await consumer.interrupt()
        fetching = asyncio.create_task(consumer.fetch(10, 60))
        await asyncio.sleep(0)
        await consumer.interrupt()
        assert await asyncio.wait_for(fetching, 10) == []

    async def test_waiting_ends_with_its_time(self, consumer: SqliteConsumer) -> None:
        assert await consumer.fetch(10, 0.001) == []

    async def test_what_an_unheard_fetch_claimed_is_recovered(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b"))
        held = await consumer.fetch(1, 0)
        fetching = asyncio.create_task(consumer.fetch(1, 0))
        await asyncio.sleep(0)
        fetching.cancel()
        recovered = await consumer.recover(held)
        assert (names(held), names(recovered)) == ("a", "b")
        assert await consumer.settle("q", all_as(DONE, recovered)) == []


async def listened(store: SqliteStore) -> None:
    """Until someone listens for notifications of the store."""
    while not store._database.signals:
        await store.queues()


class TestSettle:
    async def test_done(self, store: SqliteStore, consumer: SqliteConsumer) -> None:
        await store.append("q", parcels("a b"))
        first, second = await consumer.fetch(2, 0)
        outcomes = [Settlement(first, DONE), Settlement(second, Done(VERDICT, ttl_ms=1000))]
        assert await consumer.settle("q", outcomes) == []
        gone, kept = await store.get("q", [key("a"), key("b")])
        assert gone is None
        assert kept is not None
        assert (kept.state, kept.verdict) == (State.DONE, VERDICT)

    async def test_a_result_is_kept_for_its_time(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a b"))
        first, second = await consumer.fetch(2, 0)
        await consumer.settle("q", all_as(Done(VERDICT, ttl_ms=1000), [first]))
        clock.advance(999)
        assert await state_of(store, "a") is State.DONE
        clock.advance(1)
        assert await state_of(store, "a") is None
        await consumer.settle("q", all_as(Done(VERDICT, ttl_ms=1000), [second]))
        assert await rows(store, "results") == 1

    async def test_again_begins_anew_when_due(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a b"))
        held = await consumer.fetch(1, 0)
        await consumer.settle("q", all_as(Retried(500, b"history"), held))
        [snapshot] = await store.get("q", [key("a")], bodies=True)
        assert snapshot is not None
        assert (snapshot.due_ms, snapshot.history) == (NOW_MS + 501, b"history")
        clock.advance(501)
        await consumer.promote("q")
        taken = await consumer.fetch(2, 0)
        assert names(taken) == "b a"
        assert (taken[1].count, taken[1].history) == (1, b"history")

    async def test_again_at_once_goes_to_the_back(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b"))
        await consumer.settle("q", all_as(Retried(0, b"history"), await consumer.fetch(1, 0)))
        assert names(await consumer.fetch(2, 0)) == "b a"

    async def test_moments_beyond_all_numbers_are_stored(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b"))
        first, second = await consumer.fetch(2, 0)
        outcomes = [
            Settlement(first, Retried(2**70, b"")),
            Settlement(second, Done(VERDICT, 2**70)),
        ]
        assert await consumer.settle("q", outcomes) == []
        assert await state_of(store, "a") is State.SCHEDULED
        assert await state_of(store, "b") is State.DONE

    async def test_dead(self, store: SqliteStore, consumer: SqliteConsumer) -> None:
        await store.append("q", parcels("a"))
        verdict = encode_verdict(Verdict(State.DEAD, reason="rejected"))
        outcome = Dead("rejected \ud800", b"history", verdict, ttl_ms=1000)
        await consumer.settle("q", all_as(outcome, await consumer.fetch(1, 0)))
        [snapshot] = await store.get("q", [key("a")])
        assert snapshot is not None
        assert (snapshot.state, snapshot.reason) == (State.DEAD, "rejected ?")
        assert decode_verdict(snapshot.verdict).state is State.DEAD
        [job] = (await store.dead("q")).jobs
        assert (job.job_id, job.died_ms, job.history) == (key("a"), NOW_MS, b"history")
        assert job.envelope == parcel("a").envelope

    async def test_released_jobs_are_first_again_and_uncounted(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b c"))
        held = await consumer.fetch(2, 0)
        await consumer.settle("q", all_as(RELEASED, held[::-1]))
        taken = await consumer.fetch(3, 0)
        assert names(taken) == "a b c"
        assert [delivery.count for delivery in taken] == [1, 1, 1]

    @pytest.mark.parametrize("outcome", [DONE, Retried(0, b""), Dead("rejected", b""), RELEASED])
    async def test_the_first_settlement_wins(
        self, store: SqliteStore, consumer: SqliteConsumer, outcome: Outcome
    ) -> None:
        await store.append("q", parcels("a"))
        held = await consumer.fetch(1, 0)
        assert await consumer.settle("q", all_as(outcome, [*held, *held])) == held
        if isinstance(outcome, Dead):
            await store.replay("q", [key("a")])
        # Even if the same worker has the job again: the old delivery is not the new one.
        anew = await consumer.fetch(1, 0)
        assert await consumer.settle("q", all_as(DONE, held), repeat=True) == held
        assert await consumer.settle("q", all_as(DONE, anew)) == []

    async def test_only_the_holder_settles(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b"))
        mine = await consumer.fetch(1, 0)
        other = store.consumer("w2", ["q"], LEASE)
        yours = await other.fetch(1, 0)
        assert await other.settle("q", all_as(DONE, [*mine, *yours])) == mine
        assert await state_of(store, "a") is State.RUNNING
        assert await state_of(store, "b") is None

    async def test_closing_hands_back_what_is_held(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", parcels("a b"))
        await consumer.fetch(1, 0)
        await consumer.close()
        taken = await store.consumer("w2", ["q"], LEASE).fetch(2, 0)
        assert names(taken) == "a b"
        assert taken[0].count == 1


class TestLeases:
    async def test_an_expired_lease_is_taken_over(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a"))
        held = await consumer.fetch(1, 0)
        other = store.consumer("w2", ["q"], LEASE)
        await look_until(clock, other, LEASE_MS - 1)
        clock.advance(EVERY_MS)
        [taken] = await other.reclaim("q", 10, last_chance=False)
        assert (names([taken]), taken.count) == ("a", 2)
        assert await consumer.renew(held) == held
        assert await consumer.settle("q", all_as(DONE, held)) == held
        assert await other.settle("q", all_as(DONE, [taken])) == []

    async def test_a_renewed_lease_is_kept(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a"))
        held = await consumer.fetch(1, 0)
        other = store.consumer("w2", ["q"], LEASE)
        await look_until(clock, other, LEASE_MS - 1)
        assert await consumer.renew(held) == []
        clock.advance(EVERY_MS)
        assert await other.reclaim("q", 10, last_chance=True) == []
        assert await consumer.settle("q", all_as(DONE, held)) == []

    async def test_the_fleet_looks_once_per_interval(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a"))
        brief = store.consumer("w2", ["q"], 0.001)
        await consumer.reclaim("q", 10, last_chance=False)
        await brief.fetch(1, 0)
        clock.advance(EVERY_MS - 1)
        assert await consumer.reclaim("q", 10, last_chance=False) == []
        clock.advance(1)
        assert names(await consumer.reclaim("q", 10, last_chance=False)) == "a"

    async def test_what_a_look_leaves_behind_is_for_the_next(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a b c"))
        await store.consumer("w2", ["q"], 0.001).fetch(3, 0)
        clock.advance(EVERY_MS)
        assert names(await consumer.reclaim("q", 2, last_chance=False)) == "a b"
        clock.advance(EVERY_MS)
        assert names(await consumer.reclaim("q", 2, last_chance=False)) == "c"

    async def test_a_look_before_the_first_job_counts(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await consumer.reclaim("q", 10, last_chance=True)
        assert await store.queues() == []
        await store.append("q", parcels("a"))
        await consumer.fetch(1, 0)
        clock.advance(2 * LEASE_MS)
        assert await consumer.reclaim("q", 10, last_chance=True) == []

    @pytest.mark.parametrize("step_ms", [4 * EVERY_MS, -1])
    async def test_after_a_pause_nothing_is_taken_for_one_lease(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock, step_ms: int
    ) -> None:
        await store.append("q", parcels("a"))
        brief = store.consumer("w2", ["q"], 0.001)
        await brief.fetch(1, 0)
        await consumer.reclaim("q", 10, last_chance=False)
        clock.advance(step_ms)
        assert await consumer.reclaim("q", 10, last_chance=True) == []
        await look_until(clock, consumer, LEASE_MS - 1)
        clock.advance(EVERY_MS)
        assert names(await consumer.reclaim("q", 10, last_chance=True)) == "a"

    async def test_a_last_chance_is_given_to_one_job_at_a_time(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", parcels("a b"))
        brief = store.consumer("w2", ["q"], 0.001)
        assert [d.count for d in await brief.fetch(2, 0)] == [1, 1]
        clock.advance(EVERY_MS)
        assert [d.count for d in await brief.reclaim("q", 9, last_chance=False)] == [2, 2]
        await store.append("q", parcels("c"))
        await brief.fetch(1, 0)
        clock.advance(EVERY_MS)
        assert names(await consumer.reclaim("q", 9, last_chance=False)) == "c"
        clock.advance(EVERY_MS)
        one = await consumer.reclaim("q", 9, last_chance=True)
        assert (names(one), one[0].count) == ("a", 3)
        clock.advance(EVERY_MS)
        assert names(await consumer.reclaim("q", 9, last_chance=True)) == "b"


async def look_until(clock: ManualClock, consumer: SqliteConsumer, ms: int) -> None:
    """Let time pass with somebody looking as often as they should, and finding nothing."""
    while ms > 0:
        step = min(ms, EVERY_MS)
        clock.advance(step)
        ms -= step
        assert await consumer.reclaim("q", 10, last_chance=True) == []


class TestPromote:
    async def test_never_early_and_in_the_order_of_due_times(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        assert (await consumer.promote("q")).next_in is None
        due = [parcel("a", delay_ms=20), parcel("b", delay_ms=10), parcel("c", delay_ms=10)]
        await store.append("q", [*due, parcel("d", delay_ms=30)])
        clock.advance(9)
        promotion = await consumer.promote("q")
        assert (promotion.moved, promotion.next_in) == (0, 0.002)
        clock.advance(12)
        promotion = await consumer.promote("q")
        assert (promotion.moved, promotion.next_in, promotion.more) == (3, 0.01, False)
        assert names(await consumer.fetch(10, 0)) == "b c a"

    async def test_many_are_moved_in_bounded_steps(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await store.append("q", [parcel(f"{i}", delay_ms=1) for i in range(1500)])
        clock.advance(2)
        first = await consumer.promote("q")
        second = await consumer.promote("q")
        assert (first.moved, first.more) == (1000, True)
        assert (second.moved, second.more, second.next_in) == (500, False, None)


class TestHearing:
    async def test_an_earlier_due_time_is_heard(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        heard = asyncio.Event()
        subscription = await consumer.on_due("q", lambda _: heard.set())
        await store.append("q", [parcel("a", delay_ms=50)])
        await asyncio.wait_for(heard.wait(), 10)
        heard.clear()
        await store.append("q", [parcel("b", delay_ms=60), parcel("c")])
        assert not heard.is_set()
        await consumer.settle("q", all_as(Retried(40, b""), await consumer.fetch(1, 0)))
        await asyncio.wait_for(heard.wait(), 10)
        heard.clear()
        await subscription.close()
        await store.append("q", [parcel("d", delay_ms=1)])
        assert not heard.is_set()

    async def test_finished_jobs_are_heard_by_key(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await store.append("q", [*parcels("a b c"), Parcel(key("d"), b"no envelope")])
        heard: asyncio.Queue[Sequence[JobId] | None] = asyncio.Queue()
        subscription = await store.on_finished("q", heard.put_nowait)
        a, b, c, d = await consumer.fetch(4, 0)
        kept = Done(VERDICT, ttl_ms=1000)
        await consumer.settle("q", [*all_as(kept, [a, b]), Settlement(c, DONE)])
        assert await asyncio.wait_for(heard.get(), 10) == [key("a"), key("b")]
        await consumer.settle("q", all_as(kept, [d]))
        assert await asyncio.wait_for(heard.get(), 10) is None
        assert heard.empty()
        await subscription.close()

    async def test_another_process_is_heard_as_look_for_yourself(
        self, store: SqliteStore, other: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        heard: asyncio.Queue[Sequence[JobId] | None] = asyncio.Queue()
        subscriptions = [
            await store.on_finished("q", heard.put_nowait),
            await consumer.on_due("q", heard.put_nowait),
        ]
        await other.append("q", [parcel("a", delay_ms=5)])
        for _ in subscriptions:
            assert await asyncio.wait_for(heard.get(), 10) is None
        for subscription in subscriptions:
            await subscription.close()

    async def test_a_listener_that_fails_costs_the_others_nothing(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        failures: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def fail(_: Sequence[JobId] | None) -> None:
            raise IndexError

        subscription = await consumer.on_due("q", fail)
        assert await store.append("q", [parcel("a", delay_ms=50)]) == {}
        await store.count("q")
        assert [type(failure) for failure in failures] == [IndexError]
        await subscription.close()


class TestPeople:
    async def test_counts(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await bury(store, consumer, "a")
        await store.append("q", [*parcels("b c d"), parcel("e", delay_ms=5)])
        await consumer.fetch(1, 0)
        counts = await store.count("q")
        assert (counts.waiting, counts.running, counts.scheduled, counts.dead) == (2, 1, 1, 1)
        assert (await store.count("unknown")).waiting == 0

    async def test_dead_jobs_are_paged_latest_first(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        for name in "abc":
            await bury(store, consumer, name)
        clock.advance(1)
        await bury(store, consumer, "d")
        first = await store.dead("q", limit=3)
        last = await store.dead("q", first.cursor, limit=3)
        assert [job.job_id for job in first.jobs] == [key(name) for name in "dcb"]
        assert ([job.job_id for job in last.jobs], last.cursor) == ([key("a")], "")

    async def test_replay_begins_anew_and_once(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        await bury(store, consumer, "a")
        await store.append("q", parcels("b"))
        assert await store.replay("q", [key("a"), key("b")]) == [True, False]
        assert await store.replay("q", [key("a")]) == [False]
        [snapshot] = await store.get("q", [key("a")], bodies=True)
        assert snapshot is not None
        assert (snapshot.state, snapshot.verdict) == (State.WAITING, b"")
        assert decode_history(snapshot.history).earlier == b"history"
        assert names(await consumer.fetch(2, 0)) == "b a"

    async def test_purge_forgets(self, store: SqliteStore, consumer: SqliteConsumer) -> None:
        await bury(store, consumer, "a")
        await store.append("q", parcels("b"))
        assert await store.purge("q", [key("a"), key("b"), key("c")]) == [True, False, False]
        assert await state_of(store, "a") is None
        assert await store.append("q", parcels("a"), may_exist=True) == {}

    async def test_unknown_queues_have_nothing(
        self, store: SqliteStore, consumer: SqliteConsumer
    ) -> None:
        assert await store.get("none", [key("a")]) == [None]
        assert (await store.dead("none")).jobs == []
        assert await store.replay("none", [key("a")]) == [False]
        assert await store.purge("none", [key("a")]) == [False]
        assert await consumer.reclaim("none", 1, last_chance=True) == []

    async def test_what_is_too_old_is_swept_while_looking_for_the_abandoned(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        await bury(store, consumer, "a")
        clock.advance(DEAD_KEPT_DAYS * 24 * 60 * 60 * 1000)
        await consumer.reclaim("q", 1, last_chance=False)
        assert (await rows(store, "results"), await rows(store, "jobs")) == (0, 1)
        clock.advance(EVERY_MS)
        await consumer.reclaim("q", 1, last_chance=False)
        assert await rows(store, "jobs") == 0

    async def test_ticks_are_known_for_a_week(
        self, store: SqliteStore, consumer: SqliteConsumer, clock: ManualClock
    ) -> None:
        def tick(schedule: str) -> Parcel:
            job, now_ms = parcel(f"{schedule}@{clock.now_ms()}"), clock.now_ms()
            return Parcel(job.job_id, job.envelope, tick=Tick(schedule, now_ms))

        first = tick("nightly")
        await store.append("q", [first, *(tick(f"customer {n}") for n in range(20))])
        await consumer.settle("q", all_as(DONE, await consumer.fetch(30, 0)))
        clock.advance(7 * 24 * 60 * 60 * 1000)
        await consumer.reclaim("q", 1, last_chance=False)
        assert await store.append("q", [first]) == {0: first.job_id}
        await store.append("q", [tick("nightly")])
        clock.advance(EVERY_MS)
        await consumer.reclaim("q", 1, last_chance=False)
        assert await rows(store, "ticks") == 1

    async def test_the_oldest_of_too_many_dead_are_swept(
        self,
        store: SqliteStore,
        consumer: SqliteConsumer,
        clock: ManualClock,
    ) -> None:
        store.history_rules.queues.set("q", QueueRetention(dead=HistoryBounds(2)))
        for name in "abc":
            await bury(store, consumer, name)
            clock.advance(1)
        await consumer.reclaim("q", 1, last_chance=False)
        assert [job.job_id for job in (await store.dead("q")).jobs] == [key("c"), key("b")]


async def bury(store: SqliteStore, consumer: SqliteConsumer, name: str) -> None:
    verdict = encode_verdict(Verdict(State.DEAD, reason="rejected"))
    await store.append("q", parcels(name))
    dead = Dead("rejected", b"history", verdict, ttl_ms=1000)
    assert await consumer.settle("q", all_as(dead, await consumer.fetch(1, 0))) == []


async def rows(store: SqliteStore, table: str) -> int:
    def count(connection: sqlite3.Connection) -> int:
        found: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return found

    return await store._database.read(count)


SENDER = """
import asyncio, sys
from headrace.core.job.parcel import Parcel
from headrace.core.clock import SystemClock
from headrace.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], namespace="test", crash_limit=3, clock=SystemClock())
    await store.open()
    for number in range(1_000_000):
        await store.append("q", [Parcel(b"=%d.%d" % (number, i), b"x" * 300) for i in range(3)])
        print(number, flush=True)

asyncio.run(main())
"""

WORKER = """
import asyncio, sys
from headrace.core.clock import SystemClock
from headrace.core.job.outcome import DONE
from headrace.store.contract import Settlement
from headrace.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1], namespace="test", crash_limit=3, clock=SystemClock())
    await store.open()
    consumer = store.consumer(sys.argv[2], ["q"], 30.0)
    while deliveries := await consumer.fetch(7, 0):
        for delivery in deliveries:
            print(delivery.envelope.decode())
        assert not await consumer.settle("q", [Settlement(d, DONE) for d in deliveries])
    await store.close()

asyncio.run(main())
"""

FORKER = """
import asyncio, os, sys
from headrace.core.job.parcel import Parcel
from headrace.core.clock import SystemClock
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.store import SqliteStore

store = SqliteStore(sys.argv[1], namespace="test", crash_limit=3, clock=SystemClock())

async def child():
    try:
        await store.count("q")
    except StoreUnavailable:
        await store.open()
        await store.append("q", [Parcel(b"=child", b"x")])
        await store.close()

async def main():
    await store.open()
    await store.append("q", [Parcel(b"=parent", b"x")])

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
if os.fork() == 0:
    asyncio.run(child())
    os._exit(0)
os.wait()
print(loop.run_until_complete(store.count("q")).waiting)
"""


class TestProcesses:
    @pytest.mark.parametrize("round_", range(3))
    async def test_a_killed_sender_loses_nothing(
        self, path: Path, clock: ManualClock, round_: int
    ) -> None:
        sender = start(SENDER, path)
        assert sender.stdout is not None
        told = [sender.stdout.readline() for _ in range(50 + 17 * round_)]
        sender.send_signal(signal.SIGKILL)
        told += sender.stdout.readlines()
        sender.wait()
        sender.stdout.close()
        store = make_store(f"sqlite:///{path}", clock)
        await store.open()
        keys = [b"=%d.%d" % (int(line), i) for line in told for i in range(3)]
        assert None not in await store.get("q", keys)
        # All or none of the batch whose answer was lost.
        assert (await store.count("q")).waiting in (len(keys), len(keys) + 3)
        await store.close()

    async def test_workers_in_many_processes_share_no_job(
        self, path: Path, store: SqliteStore
    ) -> None:
        jobs = [Parcel(b"=%d" % i, b"%d" % i) for i in range(600)]
        await store.append("q", jobs)
        workers = [start(WORKER, path, f"w{i}") for i in range(4)]
        outputs = [(await asyncio.to_thread(worker.communicate))[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * 4
        ran = sorted(int(line) for output in outputs for line in output.split())
        assert ran == list(range(600))

    async def test_a_forked_child_opens_the_store_anew(self, path: Path) -> None:
        forker = start(FORKER, path)
        output, _ = await asyncio.to_thread(forker.communicate, timeout=60)
        assert (output, forker.returncode) == (b"2\n", 0)


def start(program: str, path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, f"sqlite:///{path}", *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_worker_that_still_reads_a_removed_queue_leaves_no_row(
    store: SqliteStore, consumer: SqliteConsumer, path: Path, *, leaves: bool
) -> None:
    await store.append("q", parcels("a"))
    assert await store.remove("q", force=True) == 0
    await consumer.reclaim("q", 1, last_chance=False)
    if leaves:
        await consumer.close()
    else:
        assert await store.remove("q") is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM reclaims").fetchall() == []
