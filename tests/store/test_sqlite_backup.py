"""Copies of the SQLite file that are made while it is in use, as docs/deploying.md describes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace, State


def shop(path: Path) -> Headrace:
    app = Headrace(f"sqlite:///{path}", keep_done=100_000)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    return app


def vacuumed(source: Path, copy: Path) -> None:
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))


def backed_up(source: Path, copy: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(copy)) as other:
        one.backup(other)


@pytest.mark.parametrize("copied", [vacuumed, backed_up])
async def test_a_copy_made_under_load_has_the_jobs_and_runs_them(
    tmp_path: Path, copied: Callable[[Path, Path], None]
) -> None:
    app, copy = shop(tmp_path / "jobs.db"), tmp_path / "copy.db"
    double = app.tasks["double"]
    async with app:
        waits = [await double.options(delay=0.01, queue="later").enqueue(n) for n in range(5)]

        async def send() -> None:
            while not copy.exists() or not copying.done():
                await app.enqueue_many([double.call(1)] * 50)

        async with app.worker(queues=["default"]):
            done = [await double.enqueue(number) for number in range(20)]
            for job in done:
                await job.result(60)
            copying = asyncio.ensure_future(asyncio.to_thread(copied, tmp_path / "jobs.db", copy))
            await asyncio.gather(send(), copying)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    restored = shop(copy)
    async with restored, restored.worker(queues=["later"]):
        for number, job in enumerate(done):
            assert await restored.job(job.id).status() == State.DONE
            assert await restored.job(job.id).result(1) == 2 * number
        for number, job in enumerate(waits):
            assert await restored.job(job.id).result(60) == 2 * number
