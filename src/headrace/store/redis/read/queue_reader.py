"""Divides the reads of one worker: among its queues, runners and priorities."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.shares import shares, still_behind
from headrace.errors import StoreError
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.link import Link
from headrace.store.redis.read.bounded_queues import BoundedQueueWatch
from headrace.store.redis.read.read_plan import (
    Stream,
    even_share,
    few_of,
    remaining,
    runner_at,
)
from headrace.store.redis.read.source import ReadSource, delivery_of

if TYPE_CHECKING:
    from headrace.store.redis.topics import RedisTopics

_BUSY = 0.01


class RedisReader(BoundedQueueWatch):
    """The reading side of a consumer."""

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
        super().__init__(store, consumer, queues, hand_back, bounds)
        self._report_deaths = report_deaths
        self._strict = strict
        self._alike = not strict and len(set(queues.values())) == 1
        self._turn = 0
        self._busy: set[str] = set()
        self._busy_until = float("-inf")

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
        if not self._bounded and self._are_alike(sources):
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
        source.ends = {}
        entries, counts, returned, ends = await script_stubs.fetch(
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
            most=source.most,
        )
        if ends:
            source.note_ends(self._store.keys(source.queue), ends)
        if source.returned:
            source.returned = returned
        return [
            delivery_of(source.queue, receipt, fields, epoch, times)
            for (receipt, fields), times in zip(entries, counts, strict=True)
        ]
