"""Reads a group of a topic for one worker: the log, and events that came back into its queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.keys import LOG
from headrace.store.redis.read.queue_reader import RedisReader
from headrace.store.redis.read.queue_watch import BLOCK_MOST
from headrace.store.redis.read.read_plan import Stream, remaining
from headrace.store.redis.read.source import ReadSource

if TYPE_CHECKING:
    from headrace.store.redis.topics import RedisTopics


log = logging.getLogger("headrace.store")

# Replies of `draw.lua` about the log.
_HAS_MORE, _IS_FULL = 1, 2


class GroupReader(RedisReader):
    """Reads the shards of one topic, for one group, in one command where it can; any mixture of
    queues and groups one after the other."""

    def __init__(
        self,
        store: RedisTopics,
        consumer: str,
        queues: Mapping[str, int],
        hand_back: Callable[[Sequence[LeasedDelivery]], Awaitable[None]],
        report_deaths: Callable[[str, Sequence[Any]], None],
        bounds: Mapping[str, int],
        *,
        strict: bool,
    ) -> None:
        super().__init__(store, consumer, queues, hand_back, report_deaths, bounds, strict=strict)
        for source in self._order:
            if source.log:
                self._source_of[source.log.encode()] = source, LOG
        self._watchers: dict[str, Link] = {}
        self._full = False

    async def _find(
        self, sources: Sequence[ReadSource], limit: int, wait: float, capacity: Capacity
    ) -> list[LeasedDelivery]:
        if found := await self._returned(sources, limit, capacity):
            return found
        if self._are_read_at_once(sources):
            # Events are of runner `loop` for the store.
            limit = min(limit, capacity.loop)
            if limit <= 0:
                return await self._wait_for_change(wait)
            return await self._find_at_once(sources, limit, wait)
        while True:
            found = await self._read_shares(sources, limit, capacity)
            if found or self._interrupted:
                return found
            # All events that were drawn may be blocked behind others of their keys.
            if not any(source.more for source in sources):
                break
        return await self._wait_for_any(sources, limit, wait, capacity) if wait > 0 else found

    async def _returned(
        self, sources: Sequence[ReadSource], limit: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """Events that were handed back."""
        found: list[LeasedDelivery] = []
        for source in sources:
            left, room = remaining(limit, capacity, found)
            if source.log and source.returned and min(left, room.loop) > 0:
                found += await self._read_by_script(source, left, room, fresh=False)
        return found

    def _are_read_at_once(self, sources: Sequence[ReadSource]) -> bool:
        if not self._store.server.reads_span or len({source.link for source in sources}) > 1:
            return False
        return all(source.log and not self._is_ordered(source) for source in sources)

    def _is_ordered(self, source: ReadSource) -> bool:
        return self._store.is_ordered(source.queue)

    async def _find_at_once(
        self, sources: Sequence[ReadSource], limit: int, wait: float
    ) -> list[LeasedDelivery]:
        """Read all shards in one command. While there is plenty: the log alone, with all of
        `limit`, and now and then what came back. Else whatever comes first."""
        found = await self._retried([source for source in sources if source.waiting], limit)
        if (found or self._full) and len(found) < limit:
            few = sources[: limit - len(found)]
            share = (limit - len(found)) // len(few)
            new = await self._read(few[0].link, [source.log for source in few], share, 0.0)
            self._order = self._order[len(few) :] + self._order[: len(few)]
            self._full = len(new) >= share
            found += new
        if found:
            return found
        streams = [name for each in sources for name in (each.ready, each.log)]
        if limit < len(streams):
            # One of each may exceed the limit, if both are there already.
            found = await self._read_shares(sources, limit, Capacity(limit, 0, 0))
            self._full = len(found) >= limit
            if found or wait <= 0 or self._interrupted:
                return found
        share = max(1, limit // len(streams))
        found = await self._read(sources[0].link, streams, share, wait)
        self._full = len(found) >= share
        if len(found) > limit:
            await self._hand_back(found[limit:])
        return found[:limit]

    async def _retried(self, sources: Sequence[ReadSource], limit: int) -> list[LeasedDelivery]:
        """Events that came back into the queue of the group."""
        few = sources[:limit]
        if not few:
            return []
        found = await self._read(few[0].link, [each.ready for each in few], limit // len(few), 0.0)
        if not found:
            for source in few:
                source.waiting = 0
        return found

    async def _read_now(
        self, source: ReadSource, count: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        if not source.log:
            return await super()._read_now(source, count, capacity)
        count = min(count, capacity.loop)
        if count <= 0:
            return []
        if not self._is_ordered(source):
            found = await self._read(source.link, [source.ready], count, 0.0)
            if len(found) < count:
                found += await self._read(source.link, [source.log], count - len(found), 0.0)
            return found
        source.more = False
        last, more, deaths = await script_stubs.draw(
            source.link,
            self._store.keys(source.queue),
            events=self._store.events_kept(source.queue),
            limit=count,
        )
        self._report_deaths(source.queue, deaths)
        source.last, source.more = last.decode(), more == _HAS_MORE
        self._note_room(source, is_full=more == _IS_FULL)
        # Not by the script: bytes that pass through Lua cost ten times as much.
        return await self._read(source.link, [source.ready], count, 0.0)

    def _note_room(self, source: ReadSource, *, is_full: bool) -> None:
        if is_full and not source.is_full:
            log.warning(
                "%s takes no more events from its log: too many of its own are blocked; look at "
                "its stopped keys",
                source.queue,
                extra={"queue": source.queue},
            )
        source.is_full = is_full

    def _streams(self, source: ReadSource, capacity: Capacity) -> list[Stream]:
        streams = super()._streams(source, capacity)
        if not source.log or self._is_ordered(source) or capacity.loop <= 0:
            return streams
        return [(source.ready, "loop"), (source.log, "loop")]

    def _watches(
        self, sources: Sequence[ReadSource], wait: float, capacity: Capacity
    ) -> dict[Link, asyncio.Task[list[LeasedDelivery]]]:
        """The logs of ordered groups, which are not read, but drawn from."""
        parts: dict[Link, list[ReadSource]] = {}
        for source in sources:
            if self._is_ordered(source) and not source.is_full:
                parts.setdefault(self._watcher(source), []).append(source)
        logs = {
            link: asyncio.create_task(self._watch(link, part, wait)) for link, part in parts.items()
        }
        return logs | super()._watches(sources, wait, capacity)

    async def _watch(
        self, link: Link, sources: Sequence[ReadSource], wait: float
    ) -> list[LeasedDelivery]:
        await link.identify()
        wait = min(wait, BLOCK_MOST)
        command: list[Argument] = ["XREAD", "COUNT", 1]
        if not self._interrupted and not self._changed.is_set():
            command += ["BLOCK", max(1, int(wait * 1000))]
        logs, lasts = [source.log for source in sources], [source.last for source in sources]
        patience = wait + link.timeout
        await link.call(*command, "STREAMS", *logs, *lasts, key=logs[0], timeout=patience)
        return []

    def _watcher(self, source: ReadSource) -> Link:
        server = self._store.server
        name = "" if server.reads_span else source.log
        if name not in self._watchers:
            self._watchers[name] = server.link() if server.reads_span else server.link_at(name)
        return self._watchers[name]

    def _sources_at(self, link: Link) -> list[ReadSource]:
        for log, watcher in self._watchers.items():
            if watcher is link:
                return [source for source in self._order if log in ("", source.log)]
        return super()._sources_at(link)

    def _key_at(self, link: Link) -> str:
        return self._sources_at(link)[0].ready

    async def close(self) -> None:
        for link in self._watchers.values():
            await link.drop()
        await super().close()
