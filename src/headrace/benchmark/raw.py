"""The raw limits: redis-py and the server, or SQLite, with no Headrace code."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import Any

from redis.asyncio import Redis

_ENTRY = {"j": b"x" * 32}
_STREAM, _GROUP = "raw", "g"
_ADD_ALL = "for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'j', ARGV[i]) end"


class RawLimits:
    """Each method is one measurement on an empty stream, in jobs per second or seconds."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(url)

    async def close(self) -> None:
        await self._redis.delete(_STREAM)
        await self._redis.aclose()

    async def add_one_by_one(self, count: int) -> float:
        await self._redis.delete(_STREAM)
        began = time.perf_counter()
        for _ in range(count):
            await self._redis.xadd(_STREAM, _ENTRY)  # type: ignore[arg-type]
        return count / (time.perf_counter() - began)

    async def add_by_script(self, count: int, batch: int = 500) -> float:
        """Leaves the entries for `drain`."""
        await self._redis.delete(_STREAM)
        script = self._redis.register_script(_ADD_ALL)
        entries = [_ENTRY["j"]] * batch
        began = time.perf_counter()
        for _ in range(count // batch):
            await script(keys=[_STREAM], args=entries)
        return count / (time.perf_counter() - began)

    async def drain(self, count: int, batch: int = 512, *, deletes: bool = True) -> float:
        """Read, acknowledge, delete; or keep, as a log does."""
        redis = self._redis
        await redis.xgroup_create(_STREAM, _GROUP, "0")
        left = count
        began = time.perf_counter()
        while left:
            ids = _ids(await redis.xreadgroup(_GROUP, "c", {_STREAM: ">"}, count=batch))
            await redis.xack(_STREAM, _GROUP, *ids)
            if deletes:
                await redis.xdel(_STREAM, *ids)
            left -= len(ids)
        return count / (time.perf_counter() - began)

    async def wake_latencies(self, count: int) -> list[float]:
        """From XADD to the answer of a blocked XREADGROUP on another connection."""
        redis = self._redis
        await redis.delete(_STREAM)
        await redis.xgroup_create(_STREAM, _GROUP, "0", mkstream=True)
        took: list[float] = []
        for _ in range(count):
            blocked = asyncio.create_task(self._blocked_read())
            await asyncio.sleep(0.004)
            began = time.perf_counter()
            await asyncio.gather(redis.xadd(_STREAM, _ENTRY), _noted(blocked, began, took))  # type: ignore[arg-type]
        return took

    async def _blocked_read(self) -> None:
        await self._redis.xreadgroup(_GROUP, "c", {_STREAM: ">"}, count=1, block=5000)


async def _noted(blocked: asyncio.Task[Any], began: float, took: list[float]) -> None:
    await blocked
    took.append(time.perf_counter() - began)


def _ids(reply: Any) -> list[bytes]:
    """The entry ids in a reply, whichever protocol version shaped it."""
    entries = reply[0][1] if isinstance(reply, list) else next(iter(reply.values()))[0]
    return [entry[0] for entry in entries]


class RawSqlite:
    """A table in a file, written as durably as Headrace writes."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, job BLOB)")

    def close(self) -> None:
        self._connection.close()

    def add_one_by_one(self, count: int) -> float:
        """Rows per second, each in a transaction of its own, which is on disk before the next."""
        execute = self._connection.execute
        began = time.perf_counter()
        for _ in range(count):
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO raw (job) VALUES (?)", (_ENTRY["j"],))
            execute("COMMIT")
        return count / (time.perf_counter() - began)
