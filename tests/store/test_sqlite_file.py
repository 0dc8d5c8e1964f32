"""A file that is deleted or replaced while it is in use, and a write-ahead log that grows."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.store.sqlite.connection import file
from tests.worker.states import until

SUFFIXES = ("", "-wal", "-shm")


class Shop:
    """An app that notes what it ran; two of them are two processes, as far as the file goes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ran: list[int] = []
        self.hold = asyncio.Event()
        self.app = Headrace(f"sqlite:///{path}", lease=1.0)

        @self.app.task
        async def note(number: int) -> None:
            self.ran.append(number)

        @self.app.task
        async def wait(number: int) -> None:
            self.ran.append(number)
            await self.hold.wait()

        self.note, self.wait = note, wait


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def delete(path: Path) -> None:
    for suffix in SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def delete_file_alone(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("VACUUM")
    other.replace(path)


def lead(path: Path, to: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(to)


@pytest.mark.parametrize("how", [delete, delete_file_alone, replace])
async def test_a_worker_goes_on_with_the_file_that_its_path_names(
    path: Path, how: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(path)
    async with shop.app, shop.app.worker():
        await shop.note.enqueue(1)
        await until(lambda: shop.ran == [1])
        how(path)
        await until(lambda: f"{path} was " in caplog.text)
        await until(lambda: f"{path} is open again" in caplog.text)
        newcomer = Shop(path)
        async with newcomer.app:
            await newcomer.note.enqueue(2)
            await until(lambda: shop.ran == [1, 2])
    assert "crashed" not in caplog.text


async def test_a_sender_that_lives_long_sends_to_the_new_file(path: Path) -> None:
    sender, shop = Shop(path), Shop(path)
    async with sender.app:
        await sender.note.enqueue(1)
        delete(path)
        await asyncio.sleep(2 * file.LOOK_SECONDS)
        async with shop.app, shop.app.worker():
            await sender.note.enqueue(2)
            await until(lambda: shop.ran == [2])
            assert await sender.app.admin.queues()


async def test_a_file_that_comes_back_later_is_opened_then(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "_PATIENCE_SECONDS", 30.0)
    shop = Shop(path)
    async with shop.app:
        await shop.note.enqueue(1)
    shutil.copy(path, path.with_name("copy.db"))
    async with shop.app, shop.app.worker():
        await until(lambda: shop.ran == [1])
        delete(path)
        await until(lambda: "was deleted while it was in use" in caplog.text)
        path.with_name("copy.db").rename(path)
        # What the copy has is run once more: to it, that has not happened.
        await until(lambda: shop.ran == [1, 1])


async def test_outcomes_of_jobs_of_the_old_file_are_refused_and_those_of_the_new_are_not(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(path)
    async with shop.app, shop.app.worker():
        await shop.wait.enqueue(1)
        await until(lambda: shop.ran == [1])
        delete(path)
        await until(lambda: f"{path} is open again" in caplog.text)
        # The same row, the same count, the same worker.
        second = await shop.wait.enqueue(2)
        await until(lambda: shop.ran == [1, 2])
        await until(lambda: "lease lost" in caplog.text)
        assert await second.status() == "running"
        shop.hold.set()
        await second.result(timeout=30)


@pytest.mark.parametrize("suffixes", [("-wal",), ("-shm",), ("-wal", "-shm")])
async def test_a_log_that_is_deleted_is_noticed_and_nothing_in_it_is_lost(
    path: Path, suffixes: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(path)
    async with shop.app:
        async with shop.app.worker():
            job = await shop.wait.enqueue(1)
            await until(lambda: shop.ran == [1])
            for suffix in suffixes:
                os.unlink(f"{path}{suffix}")
            await until(lambda: f"-wal or -shm file of {path} was deleted" in caplog.text)
            await shop.note.enqueue(2)
            await until(lambda: shop.ran == [1, 2])
            shop.hold.set()
            await job.result(timeout=30)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_whoever_lets_an_old_file_go_leaves_the_log_of_the_new_one(path: Path) -> None:
    """SQLite removes logs by name when the last connection to a file is closed."""
    program = f"""
import asyncio, pathlib
from headrace import Headrace
async def main():
    async with Headrace("sqlite:///{path}") as app:
        await app.admin.queues()
        print("open", flush=True)
        input()
asyncio.run(main())
"""
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        delete(path)
        shop = Shop(path)
        async with shop.app:
            await shop.note.enqueue(1)
            logs = [os.stat(f"{path}{suffix}").st_ino for suffix in SUFFIXES]
            other.stdin.write("\n")
            other.stdin.close()
            assert await asyncio.to_thread(other.wait, 60) == 0
            assert [os.stat(f"{path}{suffix}").st_ino for suffix in SUFFIXES] == logs
            assert (await shop.app.store.count("default")).waiting == 1


async def test_a_link_that_leads_to_another_file_is_followed_and_the_first_file_kept(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = path.with_name("first.db"), path.with_name("second.db")
    lead(path, first)
    shop, elsewhere = Shop(path), Shop(second)
    async with elsewhere.app:
        await elsewhere.note.enqueue(2)
    async with shop.app, shop.app.worker():
        await shop.note.enqueue(1)
        await until(lambda: shop.ran == [1])
        lead(path, second)
        await until(lambda: shop.ran == [1, 2])
        assert f"{path} was replaced" in caplog.text
    with closing(sqlite3.connect(first)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        [(queues,)] = connection.execute("SELECT count(*) FROM queues").fetchall()
        assert queues


async def test_groups_and_schedules_go_on_in_the_new_file(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace(f"sqlite:///{path}")
    topic = app.topic("orders", int)
    handled: list[int] = []
    ticks: list[int] = []

    @topic.subscribe("billing")
    async def bill(number: int) -> None:
        handled.append(number)

    @app.every(0.2)
    async def tick() -> None:
        ticks.append(1)

    async with app, app.worker():
        await topic.publish(1)
        await until(lambda: handled == [1] and bool(ticks))
        delete(path)
        await until(lambda: f"{path} is open again" in caplog.text)
        ticks.clear()
        await topic.publish(2)
        await until(lambda: handled == [1, 2])
        await until(lambda: len(ticks) > 1)


# The write-ahead log


class Readers:
    """Others that read the file, so that there is never a moment at which nobody does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._turns = [threading.Event(), threading.Event()]
        self._threads = [threading.Thread(target=self._read, args=(at,)) for at in (0, 1)]
        for thread in self._threads:
            thread.start()
        for turn in self._turns:
            assert turn.wait(30)

    def _read(self, at: int) -> None:
        mine, other = self._turns[at], self._turns[1 - at]
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            while not self._over.is_set():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM jobs").fetchall()
                mine.set()
                # Until the other has begun.
                other.wait(0.2)
                other.clear()
                connection.execute("COMMIT")

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "LOG_BYTES", 2 * 2**20)
    monkeypatch.setattr(file, "_LOUD_BYTES", 3 * 2**20)
    monkeypatch.setattr(file, "_CUT_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(file, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr("headrace.store.sqlite.connection.thread.LOOK_SECONDS", 0.0)


def log_size(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


@pytest.mark.usefixtures("small")
async def test_a_log_stays_short_though_there_is_always_someone_who_reads(path: Path) -> None:
    app = Headrace(f"sqlite:///{path}")

    @app.task
    async def keep(data: bytes) -> None: ...

    async with app:
        readers = await asyncio.to_thread(Readers, path)
        try:
            sizes = []
            for _ in range(50):
                await keep.enqueue(bytes(500_000))
                sizes.append(log_size(path))
        finally:
            await asyncio.to_thread(readers.stop)
    assert max(sizes) < 10 * 2**20


@pytest.mark.usefixtures("small")
async def test_a_log_that_someone_keeps_from_being_cut_is_reported_with_its_size(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace(f"sqlite:///{path}")

    @app.task
    async def keep(data: bytes) -> None: ...

    async with app:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM jobs").fetchall()
            for _ in range(20):
                await keep.enqueue(bytes(200_000))
            (risk,) = (await app.admin.store()).risks
        assert f"write-ahead log of {path} has grown to 3 MiB" in caplog.text
        assert f"write-ahead log of {path} has grown to " in risk
        assert f"fuser -v {path} lists who has the file open" in risk
        await app.admin.queues()
        assert log_size(path) <= 2 * 2**20
        assert (await app.admin.store()).risks == ()


async def test_who_reads_page_by_page_keeps_no_log_from_being_cut(path: Path) -> None:
    """However slowly they read on: no transaction is open between two pages."""
    app = Headrace(f"sqlite:///{path}")
    orders = app.topic("orders", str)

    @app.task
    async def keep(number: int) -> None: ...

    async with app, aclosing(app.admin.events("default")) as events:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            sent = await app.enqueue_many(keep.call(number) for number in range(30))
            await orders.publish_many([str(number) for number in range(30)])
            for read in (
                lambda: app.admin.jobs(limit=10),
                lambda: app.admin.jobs(limit=10, search="29", scan=10),
                lambda: anext(events),
                lambda: orders.read(limit=10),
                app.admin.stats,
                app.admin.queues,
                sent[0].info,
            ):
                await read()
                [(busy, _, _)] = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                assert (busy, log_size(path)) == (0, 0)
                await keep.enqueue(0)
