"""One namespace on a Redis server: its connections, its queues, and the names of their keys."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headrace.core.address import without_password
from headrace.core.confirming import Confirming
from headrace.core.job.history_rules import HistoryRules
from headrace.core.queue_names import group_source
from headrace.errors import StoreMismatch, StoreRefused
from headrace.store.loop_local import LoopLocal
from headrace.store.oddities import Oddities, readable
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.confirmation import Confirmation
from headrace.store.redis.connection.endpoint import RedisEndpoint
from headrace.store.redis.connection.link import Link
from headrace.store.redis.connection.pubsub import PubSub
from headrace.store.redis.keys import LAYOUT, QueueKeys, layout_key, queues_key
from headrace.store.topics import Group
from headrace.store.values import Description

log = logging.getLogger("headrace.store")

_ANNOUNCED_FOR = 60.0
_PAGE = 1000
_MOST_KEYS = 2000
HAS_MESSAGES = -2
"""What `remove` returns while the queue has messages for others."""


class LoopLinks:
    """The connections of one event loop: one to send, one to ask, one to listen."""

    def __init__(self, server: RedisEndpoint) -> None:
        self.send = server.link()
        self.ask = server.link(repeats=True)
        self.put = server.confirmed_link() or self.send
        """For jobs and events: returns when replicas have them, if the app wants that."""
        self.pubsub = PubSub(server.connect, server.link_settings)
        self._server = server
        self._idle: dict[str, list[Link]] = {}
        self.confirming: dict[Confirming, Link] = {}
        """For the sends that ask for more than the app does."""

    @asynccontextmanager
    async def waiting_at(self, stream: str) -> AsyncIterator[Link]:
        """A connection for a read of this stream that may block, reserved meanwhile."""
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
        for link in self.confirming.values():
            await link.drop()
        await self.ask.drop()


class RedisNamespace:
    """What all parts of the Redis store share."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        crash_limit: int,
        require_durable: bool = False,
        events: bool = True,
        confirmation: Confirmation | None = None,
        credential_provider: Any = None,
        history_rules: HistoryRules | None = None,
    ) -> None:
        self.namespace = namespace
        self.crash_limit = crash_limit
        self.server = RedisEndpoint(
            url, confirmation=confirmation, credential_provider=credential_provider
        )
        self.history_rules = history_rules or HistoryRules()
        self.records_events = events
        self._require_durable = require_durable
        self._links: LoopLocal[LoopLinks] = LoopLocal()
        self._keys: dict[str, QueueKeys] = {}
        self._announced: dict[str, float] = {}
        self.oddities = Oddities()
        self._joined: dict[str, Group] = {}
        """What this process wants of each group, in case someone empties the server."""

    async def open(self) -> None:
        ask = self.links().ask
        try:
            await self.server.check(ask, require_durable=self._require_durable)
            await self._check_layout(ask)
        except BaseException:
            # A caller that is refused has nothing to close.
            await ask.drop()
            raise

    async def _check_layout(self, ask: Link) -> None:
        key = layout_key(self.namespace)
        layout = await ask.call("GET", key, key=key)
        if layout not in (None, LAYOUT):
            where, named = without_password(self.server.url), layout.decode(errors="replace")
            raise StoreMismatch(
                f"namespace {self.namespace!r} at {where} was written by a newer Headrace (layout "
                f"{named}, this one knows up to {LAYOUT.decode()}): upgrade headrace"
            )

    async def close(self) -> None:
        links = self._links.pop()
        if links is not None:
            await links.close()

    async def describe(self) -> Description:
        return await self.server.describe(self.links().ask)

    async def time_ms(self) -> int:
        seconds, micros = await self.links().ask.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def confirming_link(self, confirm: Confirming) -> Link:
        """The link for sends that must be as certain as `confirm` says. A server that cannot make
        them so is refused before anything is sent."""
        links = self.links()
        link = links.confirming.get(confirm)
        if link is None:
            if Confirming.DISK in confirm:
                await self.server.check_disk(links.ask)
            link = links.confirming.setdefault(confirm, self.server.confirming_link(confirm))
        return link

    async def read_later(self, stream: str, after: str, limit: int, wait: float) -> list[Any]:
        """Entries after one, once there are any; an empty list after `wait` seconds."""
        async with self.links().waiting_at(stream) as link:
            reply = await link.call(
                "XREAD", "BLOCK", max(1, int(wait * 1000)), "COUNT", limit,
                "STREAMS", stream, after,
                key=stream, timeout=wait + link.timeout,
            )  # fmt: skip
        return reply[0][1] if reply else []

    async def announce(self, link: Link, *queues: str) -> None:
        """Add the queue, or a group's log, to the list of queues; again now and then, in case
        someone emptied the server."""
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

    async def remove(
        self, name: str, *, force: bool = False, unused_for: float | None = None
    ) -> int | None:
        listed, link = queues_key(self.namespace), self.links().send
        names: list[bytes] = await link.call("SMEMBERS", listed, key=listed)
        known = next((raw for raw in names if readable(raw) == name), None)
        if known is None:
            return None
        if known != name.encode("utf-8", "surrogatepass"):
            await link.call("SREM", listed, known, key=listed)
            return 0
        keys, unused_ms = self.keys(name), int((unused_for or 0) * 1000)
        held = 1
        while held > 0:
            held = await script_stubs.remove(
                link, keys, events=self.events_kept(name), force=force, unused_ms=unused_ms
            )
            if held and not (force and held > 0):
                return held
        if unused_for is None:
            await self._forget_rest(keys)
        await link.call("SREM", listed, known, key=listed)
        self._announced.pop(name, None)
        if not await script_stubs.forget(link, keys, last=True, names=[]):
            # Someone who had announced it before has sent to it meanwhile.
            await self.announce(link, name)
        return 0

    async def _forget_rest(self, keys: QueueKeys) -> None:
        """Keys that expire by themselves, such as those of results."""
        # A script that the server does not know yet begins another session: before they are listed.
        await script_stubs.forget(self.links().send, keys, last=False, names=[])
        try:
            for pattern in keys.patterns:
                await self._forget_all(pattern, keys)
        except StoreRefused as error:
            log.info(
                "traces of jobs of queue %r are left, and expire: %s",
                keys.queue,
                error,
                extra={"queue": keys.queue},
            )

    async def _forget_all(self, pattern: str, keys: QueueKeys) -> None:
        links, cursor = self.links(), b""
        while cursor != b"0":
            scan = ("SCAN", cursor or b"0", "MATCH", pattern, "COUNT", _PAGE)
            cursor, found = await links.ask.call(*scan, key=keys.jobs)
            if found and not await script_stubs.forget(links.send, keys, last=False, names=found):
                return

    def keys(self, queue: str) -> QueueKeys:
        keys = self._keys.get(queue)
        if keys is None:
            if len(self._keys) >= _MOST_KEYS:
                # Begun anew: a store may name hundreds of thousands, and each takes 5 KB.
                self._keys = {}
            keys = self._keys[queue] = QueueKeys(self.namespace, queue, self.history_rules)
        return keys

    def rules_of(self, queue: str) -> HistoryRules | None:
        """What is kept of a queue's done jobs; None if nothing is. Events are not kept."""
        rules = self.history_rules
        return rules if rules.keeps_any and "@" not in queue else None

    def events_kept(self, queue: str) -> int:
        """How many facts of a queue are kept; 0 if none are recorded."""
        return self.history_rules.queues.of(queue).events if self.records_events else 0

    def links(self) -> LoopLinks:
        return self._links.get() or self._links.set(LoopLinks(self.server))
