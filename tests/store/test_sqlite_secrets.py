"""With `secure_delete`, what is not kept any more is in no byte of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace import Headrace, Reject
from headrace.testing import ManualClock

SECRET = "4929-1188-2277-8810"
# The second kind does not fit into a page of the file, and has pages of its own.
CARDS = [f"{SECRET} " * 3, f"{SECRET} " * 500] * 50
# Some are cut in two, where a page ends.
MANY = 50 * 450


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(path: Path, clock: ManualClock) -> AsyncIterator[Headrace]:
    url = f"sqlite:///{path}?secure_delete=yes"
    async with Headrace(url, keep_done=0, clock=clock) as app:
        yield app


def copies_in(path: Path) -> int:
    """How often the secret is in the file, once everything in its log was written into it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert not busy
    return path.read_bytes().count(SECRET.encode())


async def test_arguments_are_gone_with_their_jobs(app: Headrace, path: Path) -> None:
    @app.task(result_ttl=0)
    async def charge(card: str) -> str:
        return card

    await app.enqueue_many(charge.call(card) for card in CARDS)
    assert copies_in(path) > MANY
    await app.worker(burst=True).run()
    assert copies_in(path) == 0


async def test_results_are_gone_when_they_expire(
    app: Headrace, path: Path, clock: ManualClock
) -> None:
    @app.task(result_ttl=60)
    async def card_of(number: int) -> str:
        return CARDS[number]

    @app.task
    async def other() -> None: ...

    await app.enqueue_many(card_of.call(number) for number in range(len(CARDS)))
    await app.worker(burst=True).run()
    assert copies_in(path) > MANY
    clock.advance(61)
    # Each result that is kept drops two that have expired.
    await app.enqueue_many(other.call() for _ in CARDS)
    await app.worker(burst=True).run()
    assert copies_in(path) == 0


async def test_dead_jobs_are_gone_when_they_are_purged(app: Headrace, path: Path) -> None:
    @app.task
    async def refuse(card: str) -> None:
        raise Reject("the bank does not like it")

    await app.enqueue_many(refuse.call(card) for card in CARDS)
    await app.worker(burst=True).run()
    assert copies_in(path) > MANY
    assert await app.admin.purge(queue="default") == len(CARDS)
    assert copies_in(path) == 0


async def test_events_are_gone_after_their_retention(
    app: Headrace, path: Path, clock: ManualClock
) -> None:
    paid = app.topic("paid", str, retention=60)

    @paid.subscribe("books")
    async def book(card: str) -> None: ...

    await paid.publish_many(CARDS)
    assert copies_in(path) > MANY
    await app.worker(burst=True).run()
    clock.advance(61)
    await app.worker(burst=True).run()
    assert copies_in(path) == 0
