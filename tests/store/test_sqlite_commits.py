"""What is done when SQLite says that it failed: once or not at all, and never twice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace import Headrace, StoreFull
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.schema import Connection
from headrace.store.sqlite.store import SqliteStore
from tests.worker.states import until

CODES = {
    "busy": (sqlite3.SQLITE_BUSY, "database is locked"),
    "io": (sqlite3.SQLITE_IOERR, "disk I/O error"),
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
}


class Faulty(Connection):
    """Says of the next commits that they failed: of those `after`, when they are done."""

    before: ClassVar[list[str]] = []
    after: ClassVar[list[str]] = []
    noted = 0

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.total_changes > self.noted:
            self.noted = self.total_changes
            if self.before:
                super().execute("ROLLBACK")
                raise failure(self.before.pop())
            result = super().execute(sql, *given)
            if self.after:
                raise failure(self.after.pop())
            return result
        return super().execute(sql, *given)


def failure(kind: str) -> sqlite3.OperationalError:
    code, text = CODES[kind]
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Headrace]:
    monkeypatch.setattr(schema, "Connection", Faulty)
    monkeypatch.setattr(Faulty, "before", [])
    monkeypatch.setattr(Faulty, "after", [])
    async with Headrace(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["busy", "io"])
async def test_a_job_that_leaves_no_trace_is_sent_once(app: Headrace, when: str, kind: str) -> None:
    ran: list[int] = []

    @app.task(result_ttl=0)
    async def note(number: int) -> None:
        ran.append(number)

    async with app.worker():
        for number in range(3):
            getattr(Faulty, when).append(kind)
            await note.enqueue(number)
            await until(lambda: not getattr(Faulty, when))
        await note.enqueue(99)
        await until(lambda: 99 in ran)
    assert sorted(ran) == [0, 1, 2, 99]


@pytest.mark.parametrize("kind", [*CODES])
async def test_what_was_committed_is_not_said_to_have_failed(
    app: Headrace, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = app.topic("orders", str)

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    Faulty.after.append(kind)
    job = await add.enqueue(1, 2)
    Faulty.after.append(kind)
    await topic.publish("paid")
    assert [event.data for event in await topic.read()] == ["paid"]
    Faulty.after += [kind] * 3
    async with app.worker():
        assert await job.result(timeout=30) == 3
        await until(lambda: not Faulty.after)
    assert "was done, though it failed" in caplog.text
    assert "lease" not in caplog.text


async def test_what_was_not_committed_is_not_there(app: Headrace) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    Faulty.before.append("full")
    with pytest.raises(StoreFull):
        await add.enqueue(1, 2)
    assert (await app.store.count("default")).waiting == 0
    await add.enqueue(1, 2)
    assert (await app.store.count("default")).waiting == 1


async def test_a_file_without_room_takes_nothing_and_goes_on_when_it_has_some(
    tmp_path: Path,
) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def keep(data: bytes) -> int:
        return len(data)

    def bound(connection: sqlite3.Connection, pages: int) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    async with app:
        assert isinstance(app.store, SqliteStore)
        await app.store._database.read(lambda connection: bound(connection, 1))
        with pytest.raises(StoreFull):
            await keep.enqueue(bytes(1_000_000))
        await app.store._database.read(lambda connection: bound(connection, 1_000_000))
        job = await keep.enqueue(bytes(1_000_000))
        assert (await app.store.count("default")).waiting == 1
        async with app.worker():
            assert await job.result(timeout=30) == 1_000_000


async def test_a_send_that_waits_for_another_process_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(result_ttl=0)
    async def note() -> None: ...

    async with app:
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr(schema, "BUSY_SECONDS", 0.001)
            sending = asyncio.create_task(note.enqueue())
            await asyncio.sleep(0.2)
            assert not sending.done()
            other.execute("ROLLBACK")
        await sending
        assert (await app.store.count("default")).waiting == 1
