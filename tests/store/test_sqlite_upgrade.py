"""A file that an earlier Headrace wrote is used on, with all that is in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from headrace.core.clock import SystemClock
from headrace.core.job.envelope import encode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.ids import to_id
from headrace.core.job.outcome import DONE
from headrace.core.job.state import State
from headrace.core.job.verdict import Verdict, encode_verdict
from headrace.errors import StoreError
from headrace.store.contract import Settlement
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.tables import UPGRADES
from headrace.store.sqlite.entries import LADEN
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Counts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HISTORY = b"\x90"
LATER_MS = 2**50
VERDICT = encode_verdict(Verdict(State.DONE, b"\x01"))
JOBS = (
    # id, job id, state, position, time_ms, count, owner, reason, history
    (1, "first", "waiting", 1, 7, 0, "", "", b""),
    (2, "retried", "waiting", 2, 8, 0, "", "", HISTORY),
    (3, "later", "scheduled", 0, LATER_MS, 0, "", "", HISTORY),
    (4, "held", "running", 4, LATER_MS, 2, "w1", "", b""),
    (5, "given-up", "dead", 5, LATER_MS, 1, "", "rejected", HISTORY),
)
COLUMNS = (
    "id, queue, job_id, state, position, time_ms, count, owner, reason, history, flags, envelope"
)
# What a later version may do: a column, values for it, and another index.
STEP = (
    "ALTER TABLE jobs ADD COLUMN colour TEXT NOT NULL DEFAULT ''",
    "UPDATE jobs SET colour = 'blue' WHERE state = 'waiting'",
    "DROP INDEX jobs_dead",
    "CREATE INDEX jobs_dead ON jobs (queue, time_ms, colour) WHERE state = 'dead'",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        _write_version_1(connection)
    return tmp_path / "old.db"


@pytest.fixture
async def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    _next_version(monkeypatch, STEP)
    store = _store(path)
    await store.open()
    yield store
    await store.close()


def _next_version(monkeypatch: pytest.MonkeyPatch, step: tuple[str, ...]) -> None:
    monkeypatch.setattr(schema, "UPGRADES", (*UPGRADES, step))
    monkeypatch.setattr(schema, "VERSION", len(UPGRADES) + 1)


def _store(path: Path) -> SqliteStore:
    return SqliteStore(
        f"sqlite:///{path}", namespace="test", crash_limit=3, clock=SystemClock(), events=False
    )


def _write_version_1(connection: sqlite3.Connection) -> None:
    for statement in UPGRADES[0]:
        connection.execute(statement)
    connection.execute("INSERT INTO queues VALUES (7, 'test', 'q')")
    connection.execute("UPDATE numbers SET last = 5")
    for id, name, *place, history in JOBS:
        row = (id, 7, to_id(name), *place, history, LADEN if history else 0, envelope(name))
        connection.execute(f"INSERT INTO jobs ({COLUMNS}) VALUES ({','.join('?' * len(row))})", row)
    result = (1, 7, to_id("ended"), LATER_MS, VERDICT)
    connection.execute("INSERT INTO results VALUES (?, ?, ?, ?, ?)", result)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()


def envelope(name: str) -> bytes:
    return encode_envelope(to_id(name), "task", b"\x90")


async def test_every_job_is_where_it_was(store: SqliteStore) -> None:
    snapshots = await store.get("q", [to_id(job[1]) for job in JOBS], bodies=True)
    seen = [
        (s.state, s.worker, s.reason, s.history, s.envelope) for s in snapshots if s is not None
    ]
    assert seen == [(job[2], job[6], job[7], job[8], envelope(job[1])) for job in JOBS]
    [ended] = await store.get("q", [to_id("ended")])
    assert ended is not None
    assert ended.verdict == VERDICT


async def test_jobs_are_delivered_in_their_order_with_their_history(store: SqliteStore) -> None:
    worker = store.consumer("w2", ["q"], 30.0)
    deliveries = await worker.fetch(10, 0)
    assert [(d.envelope, d.history) for d in deliveries] == [
        (envelope("first"), b""),
        (envelope("retried"), HISTORY),
    ]


async def test_what_was_running_can_be_settled_by_its_holder(store: SqliteStore) -> None:
    holder = store.consumer("w1", ["q"], 30.0)
    [delivery] = await holder.recover([])
    assert (delivery.receipt, delivery.count) == (4, 2)
    assert await holder.settle("q", [Settlement(delivery, DONE)]) == []


async def test_what_was_dead_can_be_sent_again(store: SqliteStore) -> None:
    assert await store.replay("q", [to_id("given-up")]) == [True]
    [snapshot] = await store.get("q", [to_id("given-up")], bodies=True)
    assert snapshot is not None
    assert snapshot.state == State.WAITING
    assert decode_history(snapshot.history).attempts == ()


async def test_what_waits_has_waited_since_the_same_time(store: SqliteStore) -> None:
    [before] = await store.survey(["q"])
    assert before.counts == Counts(waiting=2, running=1, scheduled=1, dead=1)
    assert before.oldest_ms == 7
    worker = store.consumer("w2", ["q"], 30.0)
    assert len(await worker.fetch(10, 0)) == 2
    assert [worker.ready_ms(each) for each in await worker.recover([])] == [7, 8]


async def test_the_file_has_the_new_version(store: SqliteStore) -> None:
    def version(connection: sqlite3.Connection) -> int:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return found

    assert await store._database.read(version) == schema.VERSION


async def test_an_upgrade_is_made_once(store: SqliteStore, path: Path) -> None:
    again = _store(path)
    await again.open()
    await again.close()
    assert _colours(path) == ["blue", "blue", "", "", ""]


async def test_an_upgrade_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _next_version(monkeypatch, (*STEP, "DROP TABLE no_such_table"))
    with pytest.raises(StoreError, match="no_such_table"):
        await _store(path).open()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (5,)
        with pytest.raises(sqlite3.OperationalError, match="colour"):
            connection.execute("SELECT colour FROM jobs")


def _colours(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [colour for (colour,) in connection.execute("SELECT colour FROM jobs ORDER BY id")]
