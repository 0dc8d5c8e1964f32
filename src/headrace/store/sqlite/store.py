"""Jobs in an SQLite file that several processes of one machine may share, or in memory."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.store.sqlite import browsing, placing, schema
from headrace.store.sqlite.claiming import Claims
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.database import Database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.call import Parcel
    from headrace.core.clock import Clock
    from headrace.core.ids import JobKey
    from headrace.store.contract import Counts, DeadPage, Hear, Sighting, Subscription


class SqliteStore:
    """Fulfils `headrace.store.contract.Store`. What it has answered is on disk, and is there after
    a crash of the process or of the machine; except with `memory://`."""

    def __init__(self, url: str, *, namespace: str, crash_limit: int, clock: Clock) -> None:
        self._namespace = namespace
        self._crash_limit = crash_limit
        self._clock = clock
        self._database = Database(_path(url))

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def time_ms(self) -> int:
        return self._clock.now_ms()

    async def append(
        self, queue: str, parcels: Sequence[Parcel], *, repeat: bool = False
    ) -> list[bool]:
        if not parcels:
            return []
        return await self._database.write(
            lambda connection, news: placing.append(
                connection,
                news,
                namespace=self._namespace,
                queue=queue,
                parcels=parcels,
                repeat=repeat,
                now_ms=self._clock.now_ms(),
            )
        )

    async def look(
        self, queue: str, keys: Sequence[JobKey], *, bodies: bool = False
    ) -> list[Sighting | None]:
        return await self._database.read(
            lambda connection: browsing.look(
                connection,
                namespace=self._namespace,
                queue=queue,
                keys=keys,
                bodies=bodies,
                now_ms=self._clock.now_ms(),
            )
        )

    async def hear_finished(self, queue: str, hear: Hear) -> Subscription:
        return await self._database.listen([("finished", queue)], hear)

    async def queues(self) -> list[str]:
        return await self._database.read(partial(browsing.queues, namespace=self._namespace))

    async def count(self, queue: str) -> Counts:
        return await self._database.read(
            partial(browsing.count, namespace=self._namespace, queue=queue)
        )

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadPage:
        return await self._database.read(
            partial(
                browsing.dead, namespace=self._namespace, queue=queue, cursor=cursor, limit=limit
            )
        )

    async def replay(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        return await self._database.write(
            partial(placing.replay, namespace=self._namespace, queue=queue, keys=keys)
        )

    async def purge(self, queue: str, keys: Sequence[JobKey]) -> list[bool]:
        return await self._database.write(
            lambda connection, _: browsing.purge(
                connection, namespace=self._namespace, queue=queue, keys=keys
            )
        )

    def consumer(self, name: str, queues: Sequence[str], lease: float) -> SqliteConsumer:
        claims = Claims(self._namespace, name, lease, self._crash_limit, self._clock)
        return SqliteConsumer(self._database, claims, queues)


def _path(url: str) -> str:
    if url == "memory://":
        return schema.MEMORY
    path = url.removeprefix("sqlite:///")
    if path == url or path in ("", "/", schema.MEMORY) or any(c in path for c in "?#\0"):
        raise ConfigError(
            f"{url!r} is not the URL of an SQLite store: use sqlite:///file.db, "
            "sqlite:////directory/file.db or memory://"
        )
    return os.path.abspath(path)
