"""Processes that open one file at once take turns."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from headrace import StoreFull, StoreUnavailable
from headrace.store.sqlite.connection import errors, schema
from headrace.store.sqlite.connection import thread as database_thread
from headrace.store.sqlite.connection.database import Database
from headrace.store.sqlite.connection.thread import DatabaseThread, Request


class Attempts:
    """Stands in for the module `time`: frees the file after so many attempts to open it, and lets
    `seconds` pass with each."""

    def __init__(self, holder: sqlite3.Connection, freed_after: int, seconds: float) -> None:
        self._holder = holder
        self._freed_after = freed_after
        self._seconds = seconds
        self._now = 0.0
        self.count = 0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.count += 1
        self._now += self._seconds
        if self.count == self._freed_after:
            self._holder.execute("COMMIT")


def held(path: Path) -> sqlite3.Connection:
    """Another program that holds the file as one does that makes its tables."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    return holder


def attempts_of(
    monkeypatch: pytest.MonkeyPatch, holder: sqlite3.Connection, freed_after: int, seconds: float
) -> Attempts:
    attempts = Attempts(holder, freed_after, seconds)
    monkeypatch.setattr(schema, "time", attempts)
    # SQLite answers at once, as it does where waiting could be a deadlock.
    opened = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda path, **options: opened(path, **{**options, "timeout": 0})
    )
    return attempts


def test_opening_waits_until_others_are_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    holder = held(path)
    attempts = attempts_of(monkeypatch, holder, freed_after=20, seconds=1.0)
    schema.connect(str(path)).close()
    assert attempts.count == 20
    holder.close()


def test_opening_gives_up_after_30_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    holder = held(path)
    attempts = attempts_of(monkeypatch, holder, freed_after=1000, seconds=1.0)
    with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
        schema.connect(str(path))
    assert attempts.count == 30
    holder.close()


async def test_a_write_gives_up_as_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    database = Database(str(path))
    await database.open()
    holder = held(path)
    attempts = Attempts(holder, freed_after=1000, seconds=1.0)
    monkeypatch.setattr(database_thread, "time", attempts)
    # Each attempt is followed by a moment in which reads are answered.
    arrived = DatabaseThread._arrived

    def hurried(self: DatabaseThread, most: int, patience: float | None) -> list[Request]:
        if patience is None:
            return arrived(self, most, None)
        attempts.sleep(patience)
        return arrived(self, most, 0.0)

    monkeypatch.setattr(DatabaseThread, "_arrived", hurried)
    with pytest.raises(StoreUnavailable, match="another process keeps it locked"):
        await database.write(lambda connection, _: None)
    assert attempts.count == 30
    holder.close()
    await database.close()


def test_a_file_that_cannot_be_opened_for_want_of_room_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is none for the files beside it, of which SQLite only says that the disk failed."""

    def fail(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
        raise error

    monkeypatch.setattr(schema, "_prepare", fail)
    with pytest.raises(StoreUnavailable, match="the disk does not answer as it should"):
        schema.connect(str(tmp_path / "jobs.db"))
    monkeypatch.setattr(errors, "_LITTLE_ROOM", shutil.disk_usage(tmp_path).total + 1)
    with pytest.raises(StoreFull, match=r"no room left \(disk I/O error\)"):
        schema.connect(str(tmp_path / "jobs.db"))


def test_twenty_connections_to_a_new_file_are_all_made(tmp_path: Path) -> None:
    failed: list[BaseException] = []
    together = threading.Barrier(20)

    def open_it() -> None:
        together.wait()
        try:
            schema.connect(str(tmp_path / "jobs.db")).close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
