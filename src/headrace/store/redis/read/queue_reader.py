"""Reads the queues of one worker: shares, runners, priorities, and one wait for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.shares import shares, still_behind
from headrace.errors import StoreError
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.read.read_plan import (
    Stream,
    divided,
    even_share,
    few_of,
    remaining,
    runner_at,
)
from headrace.store.redis.read.source import ReadSource, delivery_of

if TYPE_CHECKING:
    from headrace.store.redis.topics import RedisTopics

BLOCK_MOST = 5.0
_BUSY = 0.01


class RedisReader:
    """The reading side of a consumer."""

    def __init__(
        self,
        store: RedisTopics,
        consumer: str,
        queues: Mapping[str, int],
        hand_back: Callable[[Sequence[LeasedDelivery]], Awaitable[None]],
        *,
        strict: bool,
    ) -> None:
        self._store = store
        self._hand_back = hand_back
        self._consumer = consumer
        self._strict = strict
        self._upkeep = store.server.link()
        # Blocking reads must not wait for each other, nor anything else for them.
        shared: dict[str, Link] = {}
        self.sources = {
            queue: ReadSource(store.keys(queue), weight, self._link_for(store.keys(queue), shared))
            for queue, weight in queues.items()
        }
        self._alike = not strict and len(set(queues.values())) == 1
        self._order = list(self.sources.values())
        self._source_of: dict[bytes, tuple[ReadSource, bytes]] = {}
        self._interrupted = False
        self._changed = asyncio.Event()
        self._turn = 0
        self._busy: set[str] = set()
        self._busy_until = float("-inf")
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

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        # Before the state is read: later changes must end the wait.
        self._changed.clear()
        sources = [source for source in await self._reachable() if not source.paused]
        capacity = capacity or Capacity(limit, limit, limit)
        limit = min(limit, capacity.total)
        if not sources or limit <= 0:
            return await self._wait_for_change(wait)
        return await self._find(sources, limit, wait, capacity)

    async def _find(
        self, sources: Sequence[ReadSource], limit: int, wait: float, capacity: Capacity
    ) -> list[LeasedDelivery]:
        if self._are_alike(sources):
            if not any(source.levels or source.returned for source in sources):
                limit = min(limit, capacity.loop)
                if limit <= 0:
                    return await self._wait_for_change(wait)
                return await self._read_alike(sources, limit, wait)
            if not any(source.needs_script(capacity) for source in sources):
                return await self._read_evenly(sources, limit, wait, capacity)
        found = await self._read_shares(sources, limit, capacity)
        if found or wait <= 0 or self._interrupted:
            return found
        return await self._wait_for_any(sources, limit, wait, capacity)

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

    def _are_alike(self, sources: Sequence[ReadSource]) -> bool:
        """Whether one command can read all of them, with the same share for each."""
        return len(sources) == 1 or (self._alike and self._store.server.reads_span)

    async def _read_alike(
        self, sources: Sequence[ReadSource], limit: int, wait: float
    ) -> list[LeasedDelivery]:
        """Read queues that have nothing but jobs of the loop, without priorities."""
        few = sources[:limit]
        if len(sources) > 1:
            self._order = self._order[len(few) :] + self._order[: len(few)]
        streams = [source.ready for source in few]
        share = max(1, limit // len(few))
        if len(few) == len(sources):
            return await self._read(few[0].link, streams, share, wait)
        # Each may answer with a job: read from some, wait for all.
        found = await self._read(few[0].link, streams, share, 0.0)
        if found or wait <= 0 or self._interrupted:
            return found
        return await self._wait_for_any(sources, limit, wait, Capacity(limit, 0, 0))

    async def _read_evenly(
        self, sources: Sequence[ReadSource], limit: int, wait: float, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """Read queues that have several streams, and no order among them, in one command. It asks
        for as many of each. So while some streams have plenty and others nothing, those are read
        alone, and the others every few milliseconds."""
        streams = [stream for source in sources for stream in self._streams(source, capacity)]
        if not streams:
            return await self._wait_for_change(wait)
        link = sources[0].link
        if time.monotonic() < self._busy_until:
            busy = [stream for stream in streams if stream[0] in self._busy]
            share = even_share(busy, limit, capacity)
            names = [name for name, _ in busy]
            if share and (found := await self._read(link, names, share, 0.0)):
                return found
        share = even_share(streams, limit, capacity)
        if not share:
            found = await self._read_few(link, streams, limit, capacity)
            if found or wait <= 0 or self._interrupted:
                return found
            return await self._wait_for_any(sources, limit, wait, capacity)
        found = await self._read(link, [name for name, _ in streams], share, wait)
        if len(found) >= share and len(streams) > 1:
            self._note_busy(found, share)
        return found

    async def _read_few(
        self, link: Link, streams: Sequence[Stream], limit: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """One job from each of some streams: from others each time, and from the next ones if
        these are empty."""
        self._turn += 1
        first = self._turn % len(streams)
        left, found = [*streams[first:], *streams[:first]], list[LeasedDelivery]()
        while left and not found:
            few = few_of(left, limit, capacity)
            found = await self._read(link, [name for name, _ in few], 1, 0.0)
            left = [stream for stream in left if stream not in few]
        if found and not left:
            self._note_busy(found, 1)
        return found

    def _note_busy(self, found: Sequence[LeasedDelivery], share: int) -> None:
        """Remember the streams from which they came, if one of them may have more. All streams
        were read."""
        came = Counter((each.queue, runner_at(each.receipt)) for each in found)
        if max(came.values()) < share:
            return
        self._busy_until = time.monotonic() + _BUSY
        self._busy = {self._store.keys(queue).stream_of(runner) for queue, runner in came}

    async def _read_shares(
        self, sources: Sequence[ReadSource], limit: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """Read what there is: each queue its share; what one leaves goes to the others."""
        found: list[LeasedDelivery] = []
        if self._strict:
            for source in sources:
                if len(found) < limit:
                    found += await self._read_one(source, *remaining(limit, capacity, found))
            return found
        hungry = list(sources)
        while hungry and len(found) < limit:
            portions = shares(
                limit - len(found),
                [source.weight for source in hungry],
                [source.behind for source in hungry],
            )
            full = []
            for source, portion in zip(hungry, portions, strict=True):
                _, room = remaining(limit, capacity, found)
                got = await self._read_one(source, portion, room) if portion else []
                found += got
                if len(got) == portion:
                    full.append(source)
            hungry = full
        self._remember(sources, found)
        return found

    def _remember(self, sources: Sequence[ReadSource], found: Sequence[LeasedDelivery]) -> None:
        """Update how far each queue is behind its share, so that small reads add up to it."""
        whole = sum(source.weight for source in sources)
        came = Counter(delivery.queue for delivery in found)
        for source in sources:
            part = len(found) * source.weight / whole
            source.behind = still_behind(source.behind, part, came[source.queue])

    async def _read_one(
        self, source: ReadSource, count: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        try:
            return await self._read_now(source, count, capacity)
        except StoreError as error:
            self._endure(source, error)
            return []

    async def _read_now(
        self, source: ReadSource, count: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        if source.needs_script(capacity):
            return await self._read_by_script(source, count, capacity)
        found: list[LeasedDelivery] = []
        streams = self._streams(source, capacity)
        self._turn += 1
        for at in range(len(streams)):
            name, runner = streams[(self._turn + at) % len(streams)]
            most = min(count - len(found), capacity.of(runner))
            if most > 0:
                found += await self._read(source.link, [name], most, 0.0)
        return found

    async def _read_by_script(
        self, source: ReadSource, count: int, capacity: Capacity, *, fresh: bool = True
    ) -> list[LeasedDelivery]:
        """What was handed back and, if `fresh`, new jobs, the highest priority first."""
        epoch, self._turn = source.epoch, self._turn + 1
        entries, counts, returned = await script_stubs.fetch(
            source.link,
            self._store.keys(source.queue),
            consumer=self._consumer,
            limit=count,
            loop=capacity.loop,
            thread=capacity.thread,
            process=capacity.process,
            turn=self._turn,
            returns=bool(source.returned),
            crash_limit=self._store.crash_limit,
            fresh=fresh,
        )
        if source.returned:
            source.returned = returned
        return [
            delivery_of(source.queue, receipt, fields, epoch, times)
            for (receipt, fields), times in zip(entries, counts, strict=True)
        ]

    async def _wait_for_any(
        self, sources: Sequence[ReadSource], limit: int, wait: float, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """Read from the first queue that has something. All reads are ended, and no reply is
        dropped."""
        groups: dict[Link, list[str]] = {}
        watched: list[Stream] = []
        for source in sources:
            for stream in self._streams(source, capacity):
                watched.append(stream)
                groups.setdefault(source.link, []).append(stream[0])
        if not watched:
            return await self._wait_for_change(wait)
        share = max(1, even_share(watched, limit, capacity))
        waits = {
            link: asyncio.create_task(self._read(link, streams, share, wait))
            for link, streams in groups.items()
        }
        waits |= self._watches(sources, wait)
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
        self, sources: Sequence[ReadSource], wait: float
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
            *command, "STREAMS", *streams, *([">"] * len(streams)), timeout=wait + 10
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
