"""Waiting for queues with a bound on how many of their jobs run: what is added to them is noticed,
and not read, because another worker may have taken the last place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.read.queue_watch import BLOCK_MOST, QueueWatch
from headrace.store.redis.read.source import ReadSource

if TYPE_CHECKING:
    from headrace.store.redis.topics import RedisTopics


class BoundedQueueWatch(QueueWatch):
    """A `QueueWatch` of queues, some of them with a bound. Without bounds it does nothing."""

    def __init__(
        self,
        store: RedisTopics,
        consumer: str,
        queues: Mapping[str, int],
        hand_back: Callable[[Sequence[LeasedDelivery]], Awaitable[None]],
        bounds: Mapping[str, int],
    ) -> None:
        super().__init__(store, consumer, queues, hand_back)
        self._room_watchers: dict[str, Link] = {}
        for source in self._order:
            source.most = bounds.get(source.queue, 0)
        self._bounded = any(source.most for source in self._order)

    def _watches(
        self, sources: Sequence[ReadSource], wait: float, capacity: Capacity
    ) -> dict[Link, asyncio.Task[list[LeasedDelivery]]]:
        """The streams of bounded queues that have room. A full one notifies when it has."""
        if not self._bounded:
            return {}
        streams: dict[Link, dict[str, str]] = {}
        for source in sources:
            if source.ends:
                readable = dict(self._streams(source, capacity))
                ends = {name: id for name, id in source.ends.items() if name in readable}
                streams.setdefault(self._room_watcher(source), {}).update(ends)
        return {
            link: asyncio.create_task(self._watch_streams(link, ends, wait))
            for link, ends in streams.items()
            if ends
        }

    async def _watch_streams(
        self, link: Link, ends: Mapping[str, str], wait: float
    ) -> list[LeasedDelivery]:
        """Wait until something comes after these entries."""
        await link.identify()
        wait = min(wait, BLOCK_MOST)
        command: list[Argument] = ["XREAD", "COUNT", 1]
        if not self._interrupted and not self._changed.is_set():
            command += ["BLOCK", max(1, int(wait * 1000))]
        names = list(ends)
        await link.call(
            *command, "STREAMS", *names, *ends.values(), key=names[0], timeout=wait + link.timeout
        )
        return []

    def _room_watcher(self, source: ReadSource) -> Link:
        server = self._store.server
        name = "" if server.reads_span else source.queue
        if name not in self._room_watchers:
            link = server.link() if server.reads_span else server.link_at(source.ready)
            self._room_watchers[name] = link
        return self._room_watchers[name]

    def _sources_at(self, link: Link) -> list[ReadSource]:
        for queue, watcher in self._room_watchers.items():
            if watcher is link:
                return [source for source in self._order if queue in ("", source.queue)]
        return super()._sources_at(link)

    def _key_at(self, link: Link) -> str:
        return self._sources_at(link)[0].ready

    async def end_wait(self) -> None:
        await super().end_wait()
        for link in self._room_watchers.values():
            if link.client_id is not None:
                await self._upkeep.call("CLIENT", "UNBLOCK", link.client_id, key=self._key_at(link))

    async def close(self) -> None:
        for link in self._room_watchers.values():
            await link.drop()
        await super().close()
