"""The store's verbs for topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.store.sqlite.topics import groups, publication, stopped_keys, topic_log
from headrace.store.topics import Position, Published

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from headrace.core.clock import Clock
    from headrace.core.job.parcel import Parcel
    from headrace.store.sqlite.connection.database import Database
    from headrace.store.sqlite.writer import Writer
    from headrace.store.topics import (
        Bound,
        Group,
        GroupState,
        LoggedEvent,
        StoppedKey,
        Trimmed,
    )  # fmt: skip
    from headrace.store.values import IdempotencyKey

P = ParamSpec("P")
T = TypeVar("T")


class SqliteTopics:
    """Fulfils `headrace.store.topics.TopicStore`."""

    def __init__(self, database: Database, writer: Writer, *, namespace: str, clock: Clock) -> None:
        self._namespace = namespace
        self._clock = clock
        self._database = database
        self._writer = writer
        self._joined: dict[str, int] = {}

    async def _find(
        self,
        query: Callable[Concatenate[sqlite3.Connection, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What `query` finds in this namespace."""
        return await self._database.read(
            lambda connection: query(connection, self._namespace, *args, **kwargs)
        )

    async def publish(
        self,
        log: str,
        events: Sequence[Parcel],
        *,
        bound: Bound | None = None,
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        confirm: Confirming = UNCONFIRMED,
    ) -> Published:
        if not events:
            return Published(0)
        publish = partial(publication.publish, events=events, bound=bound, may_exist=may_exist)
        return await self._writer.change_once(log, publish, idempotency)

    async def join(self, queue: str, group: Group, begin: Position) -> bool:
        generation = self._database.generation
        known = self._joined.get(queue)
        if known not in (None, generation):
            # Lost with its file: everything in the new one has come since.
            known, begin = None, Position("start")
        is_new = await self._writer.change(
            queue,
            partial(groups.join, group=group, begin=begin, again=known is not None),
            unless=partial(groups.unchanged, namespace=self._namespace, queue=queue, group=group),
        )
        self._joined[queue] = generation
        return is_new

    async def disband(self, queue: str) -> bool:
        self._joined.pop(queue, None)
        return await self._writer.change(queue, groups.disband)

    async def rewind(self, queue: str, to: Position) -> None:
        await self._writer.change(queue, partial(groups.rewind, to=to))

    async def position(self, log: str, place: Position) -> str:
        return await self._find(topic_log.position, log=log, place=place)

    async def read(
        self, log: str, after: str = "", limit: int = 100, wait: float = 0.0
    ) -> list[LoggedEvent]:
        read = partial(topic_log.read, namespace=self._namespace, log=log, after=after, limit=limit)
        return await self._database.read_when_notified(("ready", log), read, wait)

    async def logs(self) -> list[str]:
        return await self._find(topic_log.names)

    async def lengths(self, logs: Sequence[str]) -> dict[str, int]:
        return await self._find(topic_log.lengths, logs=logs)

    async def groups(self, logs: Sequence[str]) -> dict[str, list[GroupState]]:
        return await self._find(groups.groups, logs=logs)

    async def trim(self, log: str, *, retention_ms: int, gone_after_ms: int) -> Trimmed:
        trim = partial(topic_log.trim, retention_ms=retention_ms, gone_after_ms=gone_after_ms)
        return await self._writer.change(
            log,
            trim,
            unless=lambda connection: topic_log.nothing_to_trim(
                connection,
                namespace=self._namespace,
                log=log,
                now_ms=self._clock.now_ms(),
                retention_ms=retention_ms,
                gone_after_ms=gone_after_ms,
            ),
        )

    async def stopped_keys(self, queue: str, limit: int = 1000) -> list[StoppedKey]:
        return await self._find(stopped_keys.stopped_keys, queue=queue, limit=limit)

    async def free_key(self, queue: str, key: str) -> bool:
        return await self._writer.change(queue, partial(stopped_keys.free, key=key))
