"""An SQLite file that others keep locked."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import Headrace, StoreFull
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.store import SqliteStore
from tests.faults.crew import CALM, LONG, Crew, eventually


@pytest.fixture
async def file_crew(tmp_path: Path, namespace: str) -> AsyncIterator[Crew]:
    async with Crew(tmp_path, f"sqlite:///{tmp_path}/jobs.db", namespace, lease=CALM) as crew:
        yield crew


def lock(path: Path) -> sqlite3.Connection:
    """Keep everyone else from writing until it is closed."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=LONG)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


async def test_a_locked_file_is_waited_for(file_crew: Crew, tmp_path: Path) -> None:
    """For longer than a lease: nobody can renew one, and no job runs twice for it."""
    crew, gate = file_crew, tmp_path / "gate"
    workers = [crew.start(), crew.start()]
    for worker in workers:
        await worker.works()
    held = [await crew.app.tasks["hold"].enqueue(str(gate)) for _ in range(4)]
    await crew.begun(*(job.id for job in held))
    locked = lock(tmp_path / "jobs.db")
    sending = asyncio.create_task(crew.app.tasks["work"].enqueue(0.0))
    await asyncio.sleep(1.2 * crew.app.lease)
    assert not sending.done()
    locked.close()
    sent = await sending
    gate.touch()
    assert [await job.result(LONG) for job in (*held, sent)] == [1] * 5
    assert {len(begun) for begun in crew.runs().values()} == {1}
    for worker in workers:
        assert await worker.stopped() == 0
        assert "lost leases" not in worker.log


async def test_a_full_disk_loses_nothing_that_was_accepted(
    tmp_path: Path, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite is told that there is no room, and says of itself what it says of a full disk."""
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db", namespace=namespace, lease=1.0)
    runs: Counter[int] = Counter()
    gate = asyncio.Event()

    @app.task
    async def keep(number: int, text: str) -> str:
        runs[number] += 1
        await gate.wait()
        return text

    async with app, app.worker(concurrency=5):
        accepted = [await keep.enqueue(number, "x" * 3000) for number in range(20)]
        await eventually("some run", lambda: len(runs) == 5)
        await pragma(app, "max_page_count = 1")  # Means: no more than there are.
        with pytest.raises(StoreFull, match="no room left"):
            await keep.enqueue(20, "x" * 100_000)
        gate.set()
        # For longer than a lease: nobody can renew one, and no job runs twice for it.
        await asyncio.sleep(1.5)
        assert len(lines(caplog, "waiting jobs cannot be worked off; none is lost")) == 1
        assert lines(caplog, "over: ") == []
        await pragma(app, "max_page_count = 1000000")
        assert [await job.result(LONG) for job in accepted] == ["x" * 3000] * 20
        assert await (await keep.enqueue(21, "after")).result(LONG) == "after"
    assert runs == dict.fromkeys([*range(20), 21], 1)


async def pragma(app: Headrace, text: str) -> None:
    """Change the connection that the app and its worker share."""
    store = (await app.session()).store
    assert isinstance(store, SqliteStore)
    await store._database.read(lambda connection: connection.execute(f"PRAGMA {text}").fetchall())


async def test_a_file_locked_longer_than_anyone_waits_is_named_once(
    tmp_path: Path,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db", namespace=namespace, lease=1.0)
    runs: list[int] = []

    @app.task
    async def count(number: int) -> int:
        runs.append(number)
        return number

    async with app, app.worker():
        assert await (await count.enqueue(0)).result(LONG) == 0
        monkeypatch.setattr(schema, "BUSY_SECONDS", 0.2)  # In place of 30 seconds.
        locked = lock(tmp_path / "jobs.db")
        sending = asyncio.create_task(count.enqueue(1))
        await eventually("it is named", lambda: bool(named(caplog)))
        await asyncio.sleep(1.5)
        locked.close()
        assert await (await sending).result(LONG) == 1
        assert await (await count.enqueue(2)).result(LONG) == 2
    assert runs == [0, 1, 2]
    assert len(named(caplog)) <= 4


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    return lines(caplog, "keeps it locked")


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    said = (record.getMessage() for record in caplog.records)
    return [line for line in said if text in line]
