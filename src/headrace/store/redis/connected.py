"""What all parts of the Redis store share: its settings, connections, and names of keys."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headrace.core.bounds import EVENTS_KEPT
from headrace.core.queue_names import group_source
from headrace.store.loops import LoopLocal
from headrace.store.oddities import Oddities
from headrace.store.redis.confirming import Confirmation
from headrace.store.redis.keys import QueueKeys, queues_key
from headrace.store.redis.link import Link
from headrace.store.redis.pubsub import PubSub
from headrace.store.redis.server import Server
from headrace.store.topics import Group
from headrace.store.values import Description

_ANNOUNCED_FOR = 60.0


class LoopLinks:
    """The connections of one event loop: one to send, one to ask, one to listen."""

    def __init__(self, server: Server) -> None:
        self.send = server.link()
        self.ask = server.link(repeats=True)
        self.put = server.confirmed_link() or self.send
        """For jobs and events: as the app wants it, when replicas have them."""
        self.pubsub = PubSub(server.connect)
        self._server = server
        self._idle: dict[str, list[Link]] = {}

    @asynccontextmanager
    async def waiting_at(self, stream: str) -> AsyncIterator[Link]:
        """A connection for a read of this stream that may block: nobody else's meanwhile."""
        idle = self._idle.setdefault(stream, [])
        link = idle.pop() if idle else self._server.link_at(stream)
        try:
            yield link
        except BaseException:
            await link.drop()
            raise
        idle.append(link)

    async def close(self) -> None:
        for link in (each for links in self._idle.values() for each in links):
            await link.drop()
        await self.pubsub.close()
        await self.send.drop()
        await self.put.drop()
        await self.ask.drop()


class Connected:
    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        crash_limit: int,
        require_durable: bool = False,
        events: bool = True,
        confirmation: Confirmation | None = None,
    ) -> None:
        self.namespace = namespace
        self.crash_limit = crash_limit
        self.server = Server(url, confirmation=confirmation)
        self.events_most = EVENTS_KEPT if events else 0
        self._require_durable = require_durable
        self._links: LoopLocal[LoopLinks] = LoopLocal()
        self._keys: dict[str, QueueKeys] = {}
        self._announced: dict[str, float] = {}
        self.oddities = Oddities()
        self._joined: dict[str, Group] = {}
        """What this process wants of each group, for the case that someone empties the server."""

    async def open(self) -> None:
        ask = self.links().ask
        try:
            await self.server.check(ask, require_durable=self._require_durable)
        except BaseException:
            # Whoever is refused has nothing to close.
            await ask.drop()
            raise

    async def close(self) -> None:
        links = self._links.pop()
        if links is not None:
            await links.close()

    async def describe(self) -> Description:
        return await self.server.describe(self.links().ask)

    async def time_ms(self) -> int:
        seconds, micros = await self.links().ask.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def read_later(self, stream: str, after: str, limit: int, wait: float) -> list[Any]:
        """Entries that come after one, once there are any; none if that takes longer."""
        async with self.links().waiting_at(stream) as link:
            reply = await link.call(
                "XREAD", "BLOCK", max(1, int(wait * 1000)), "COUNT", limit,
                "STREAMS", stream, after,
                key=stream, timeout=wait + 10,
            )  # fmt: skip
        return reply[0][1] if reply else []

    async def announce(self, link: Link, *queues: str) -> None:
        """Add to the list of queues, of a group its log; again now and then, in case someone
        emptied the server."""
        sources = {queue: group_source(queue) for queue in queues}
        names = {source.log if source else queue for queue, source in sources.items()}
        key = queues_key(self.namespace)
        await link.call("SADD", key, *names, key=key)
        until = time.monotonic() + _ANNOUNCED_FOR
        self._announced.update(dict.fromkeys(queues, until))

    def is_announced(self, queue: str) -> bool:
        return self._announced.get(queue, 0.0) >= time.monotonic()

    async def names(self) -> list[str]:
        """All queues and logs that were announced, sorted."""
        key = queues_key(self.namespace)
        names = await self.links().ask.call("SMEMBERS", key, key=key)
        return sorted(self.oddities.texts(key, names))

    def keys(self, queue: str) -> QueueKeys:
        keys = self._keys.get(queue)
        if keys is None:
            keys = self._keys[queue] = QueueKeys(self.namespace, queue)
        return keys

    def links(self) -> LoopLinks:
        return self._links.get() or self._links.set(LoopLinks(self.server))
