"""What tests do with users' databases, and with what arrives in the store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from headrace import Headrace
from headrace.core.job import ids
from headrace.core.job.envelope import decode_envelope


def connect(url: str) -> Any:
    """A connection of the driver itself."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
    return psycopg.connect(url)


@contextmanager
def transaction(url: str) -> Iterator[Any]:
    connection = connect(url)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


def engine_url(url: str) -> str:
    """The URL for SQLAlchemy."""
    return url.replace("postgresql://", "postgresql+psycopg://")


def count(url: str, table: str = "headrace_outbox") -> int:
    with transaction(url) as connection:
        (number,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    return int(number)


async def until(true: Callable[[], object]) -> None:
    """Return when it is true."""
    async with asyncio.timeout(60):
        while True:
            if true():
                return
            await asyncio.sleep(0.01)


async def arrived(app: Headrace, queue: str = "default") -> list[str]:
    """The ids of all jobs that wait in a queue, in their order; takes them."""
    store = (await app.session()).store
    consumer = store.consumer("checker", [queue], 60.0)
    found: list[str] = []
    while batch := await consumer.fetch(1000, 0.0):
        for delivery in batch:
            envelope = decode_envelope(delivery.envelope)
            found.append(ids.to_text(envelope.job_id))
    await consumer.close()
    return found
