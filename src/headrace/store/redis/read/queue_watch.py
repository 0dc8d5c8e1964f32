"""The queues of one worker: what is known of each, the connections to read them, and one wait for
all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.errors import StoreError
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.read.read_plan import Stream, divided, even_share
from headrace.store.redis.read.source import ReadSource, delivery_of

if TYPE_CHECKING:
    from headrace.store.redis.topics import RedisTopics

BLOCK_MOST = 5.0


class QueueWatch:
    """Waits until one of the queues has something, and brings that. What is there already is
    divided by `RedisReader`."""

    def __init__(
        self,
        store: RedisTopics,
        consumer: str,
        queues: Mapping[str, int],
        hand_back: Callable[[Sequence[LeasedDelivery]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._hand_back = hand_back
        self._consumer = consumer
        self._upkeep = store.server.link()
        # Blocking reads must not wait for each other, nor anything else for them.
        shared: dict[str, Link] = {}
        self.sources = {
            queue: ReadSource(store.keys(queue), weight, self._link_for(store.keys(queue), shared))
            for queue, weight in queues.items()
        }
        self._order = list(self.sources.values())
        self._source_of: dict[bytes, tuple[ReadSource, bytes]] = {}
        self._bounded = False
        """Whether one of them has a bound on how many of its jobs run."""
        self._interrupted = False
        self._changed = asyncio.Event()
        for source in self._order:
            self._source_of[source.ready.encode()] = source, b""

    def _link_for(self, keys: QueueKeys, shared: dict[str, Link]) -> Link:
        """One command can read several streams, if they are on one server and have consumer groups
        of the same name."""
        server = self._store.server
        if not server.reads_span:
            return server.link_at(keys.ready)
        if keys.group not in shared:
            shared[keys.group] = server.link()
        return shared[keys.group]

    async def prepare(self) -> None:
        """Create missing consumer groups, and read the state of all queues."""
        for source in self._order:
            await self._refresh(source)
        await self._store.announce(self._upkeep, *self.sources)

    async def _refresh(self, source: ReadSource) -> None:
        keys, doubts = self._store.keys(source.queue), source.doubts
        source.epoch, levels, returned, paused, waiting, *odd = await script_stubs.create_groups(
            self._upkeep, keys, member=self._store.member(source.queue)
        )
        for key in odd:
            self._store.oddities.note(key, "it holds something that is not a number")
        source.learn(levels, returned, paused, waiting)
        for level in levels:
            self._source_of[f"{keys.level}{level.decode()}".encode()] = source, level + b"/"
        if source.doubts != doubts:
            # The answer may be older than the notification that came meanwhile.
            source.doubt()

    async def _reachable(self) -> list[ReadSource]:
        """The queues that can be read now, with their state. In a cluster, queues of an unreachable
        node are left alone for a moment; an error if none can be read."""
        for source in self._order:
            if source.is_left_alone or not source.is_stale:
                continue
            try:
                new = source.known_at == float("-inf")
                await self._refresh(source)
                if new:
                    await self._store.announce(self._upkeep, source.queue)
            except StoreError as error:
                self._endure(source, error)
        reachable = [source for source in self._order if not source.is_left_alone]
        if not reachable and self._order[0].trouble is not None:
            raise self._order[0].trouble
        return reachable

    def _endure(self, source: ReadSource, error: StoreError) -> None:
        """Go on without this queue; raises if all queues are on the server that failed."""
        if self._store.server.reads_span:
            raise error
        source.leave_alone(error)

    async def interrupt(self) -> None:
        """End the wait, and all later ones."""
        self._interrupted = True
        await self.wake()

    async def wake(self) -> None:
        """End the wait: something has changed."""
        for source in self._order:
            source.doubt()
        await self.end_wait()

    async def end_wait(self) -> None:
        """End the wait; what is known of the queues is still right."""
        self._changed.set()
        for link in {source.link for source in self._order}:
            if link.client_id is not None:
                await self._upkeep.call("CLIENT", "UNBLOCK", link.client_id, key=self._key_at(link))

    async def close(self) -> None:
        for link in {self._upkeep, *(source.link for source in self._order)}:
            await link.drop()

    async def _wait_for_any(
        self, sources: Sequence[ReadSource], limit: int, wait: float, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """Read from the first queue that has something. All reads are ended, and no reply is
        dropped."""
        groups: dict[Link, list[str]] = {}
        watched: list[Stream] = []
        for source in sources:
            for stream in self._streams(source, capacity) if not source.most else ():
                watched.append(stream)
                groups.setdefault(source.link, []).append(stream[0])
        share = max(1, even_share(watched, limit, capacity))
        waits = {
            link: asyncio.create_task(self._read(link, streams, share, wait))
            for link, streams in groups.items()
        }
        if watched or self._bounded:
            waits |= self._watches(sources, wait, capacity)
        if not waits:
            return await self._wait_for_change(wait)
        found = self._gathered(waits, await self._all_ended(waits))
        # Several may have come at the same moment; the lower priorities are last.
        kept, others = divided(found, limit, capacity)
        if others:
            await self._hand_back(others)
        return kept

    async def _all_ended(
        self, waits: Mapping[Link, asyncio.Task[list[LeasedDelivery]]]
    ) -> list[list[LeasedDelivery] | BaseException]:
        """What each read brought, after the first has ended and the others were ended."""
        try:
            await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
            while not all(read.done() for read in waits.values()):
                await self._unblock(waits)
                await asyncio.wait(waits.values(), timeout=0.05)
        except BaseException:
            # The canceller does not wait for the reads: none may go on unattended.
            for read in waits.values():
                read.cancel()
            await asyncio.gather(*waits.values(), return_exceptions=True)
            raise
        return await asyncio.gather(*waits.values(), return_exceptions=True)

    def _gathered(
        self, links: Iterable[Link], results: Sequence[list[LeasedDelivery] | BaseException]
    ) -> list[LeasedDelivery]:
        found: list[LeasedDelivery] = []
        for link, result in zip(links, results, strict=True):
            if isinstance(result, list):
                found += result
            elif isinstance(result, StoreError):
                for source in self._sources_at(link):
                    self._endure(source, result)
            else:
                raise result
        return found

    def _watches(
        self, sources: Sequence[ReadSource], wait: float, capacity: Capacity
    ) -> dict[Link, asyncio.Task[list[LeasedDelivery]]]:
        """What ends the wait besides a job; brings no jobs itself."""
        return {}

    async def _unblock(self, waits: Mapping[Link, asyncio.Task[list[LeasedDelivery]]]) -> None:
        """End the reads that still wait. If the server cannot be reached, they end by themselves
        after a few seconds, and raise the error."""
        with contextlib.suppress(StoreError):
            for link, read in waits.items():
                if not read.done() and link.client_id is not None:
                    key = self._key_at(link)
                    await self._upkeep.call("CLIENT", "UNBLOCK", link.client_id, key=key)

    def _sources_at(self, link: Link) -> list[ReadSource]:
        return [source for source in self._order if source.link is link]

    def _key_at(self, link: Link) -> str:
        """A key by which a cluster finds the node of this link."""
        return next(source.ready for source in self._order if source.link is link)

    async def _wait_for_change(self, wait: float) -> list[LeasedDelivery]:
        """Nothing, when there may be something else to read."""
        try:
            async with asyncio.timeout(0 if self._interrupted else min(wait, BLOCK_MOST)):
                await self._changed.wait()
        except TimeoutError:
            pass
        return []

    async def _read(
        self, link: Link, streams: Sequence[str], count: int, wait: float
    ) -> list[LeasedDelivery]:
        group = self._source_of[streams[0].encode()][0].group
        command: list[Argument] = ["XREADGROUP", "GROUP", group, self._consumer, "COUNT", count]
        if wait > 0 and not self._interrupted and not self._changed.is_set():
            await link.identify()
            wait = min(wait, BLOCK_MOST)
            command += ["BLOCK", max(1, int(wait * 1000))]
        # Before the read: a worker that slept between a reply and its parsing must not take its
        # deliveries for newer than they are.
        epochs = {source.queue: source.epoch for source in self._order}
        reply = await link.call(
            *command, "STREAMS", *streams, *([">"] * len(streams)), timeout=wait + link.timeout
        )
        deliveries: list[LeasedDelivery] = []
        for stream, entries in reply or ():
            source, prefix = self._source_of[stream]
            queue, epoch = source.queue, epochs[source.queue]
            for receipt, fields in entries:
                deliveries.append(delivery_of(queue, prefix + receipt, fields, epoch))
        return deliveries

    def _streams(self, source: ReadSource, capacity: Capacity) -> list[Stream]:
        return source.readable(self._store.keys(source.queue), capacity)
