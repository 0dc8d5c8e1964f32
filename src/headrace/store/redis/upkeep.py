"""What a worker does on Redis for its queues as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.state import State
from headrace.store.contract import Listener, ListenerHandle, Promotion, reclaim_every
from headrace.store.deaths import DeathListener
from headrace.store.redis import moves, script_stubs
from headrace.store.redis.connection.errors import NoGroup
from headrace.store.redis.encoding import deaths_in, is_move
from headrace.store.redis.keys import signed
from headrace.store.redis.read.read_plan import remaining
from headrace.store.redis.read.source import ReadSource, delivery_of
from headrace.store.values import Arrival, FlowMessage, JobEnding

if TYPE_CHECKING:
    from headrace.core.job.ids import JobId
    from headrace.store.redis.read.queue_reader import RedisReader
    from headrace.store.redis.topics import RedisTopics

log = logging.getLogger("headrace.store")

_PROMOTE_MOST = 500
_TICKET_MS = 2000


class RedisUpkeep:
    """See `headrace.store.contract.Upkeep`."""

    def __init__(
        self,
        store: RedisTopics,
        name: str,
        lease: float,
        reading: RedisReader,
        on_deaths: DeathListener | None,
    ) -> None:
        self.name = name
        self._on_deaths = on_deaths
        self._store = store
        self._signed = signed(name, int(lease * 1000))
        self._lease_ms = int(lease * 1000)
        self._look_ms = int(reclaim_every(lease) * 1000)
        self._reading = reading
        self._sources = reading.sources
        # Settlements and upkeep do not wait for each other.
        self._upkeep = store.server.link()
        self._waking: set[asyncio.Task[None]] = set()

    async def reclaim(
        self, queue: str, limit: int, *, last_chance: bool, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        source = self._sources[queue]
        if source.known_at == float("-inf"):
            await self._reading.prepare()
        found: list[LeasedDelivery] = []
        more, going_on = True, False
        try:
            while more and len(found) < limit:
                free = last_chance and all(each.count < self._store.crash_limit for each in found)
                left = remaining(limit, capacity, found)
                taken, more = await self._reclaim(source, *left, free, going_on)
                found += taken
                going_on = True
        except NoGroup:
            await self._make_anew()
        return found

    async def _reclaim(
        self,
        source: ReadSource,
        limit: int,
        capacity: Capacity,
        last_chance: bool,
        going_on: bool,
    ) -> tuple[list[LeasedDelivery], bool]:
        """One step of a search: what it took over, and whether there is more to search. Each step
        is short, however much is pending, so that the server can serve others in between."""
        # Read first, so that no take-over between the two goes unnoticed.
        epoch, doubts = source.epoch, source.doubts
        entries, counts, levels, paused, more = await script_stubs.reclaim(
            self._upkeep,
            self._store.keys(source.queue),
            events=self._store.events_kept(source.queue),
            consumer=self._signed,
            limit=limit,
            loop=capacity.loop,
            thread=capacity.thread,
            process=capacity.process,
            last_chance=last_chance,
            lease=self._lease_ms,
            interval=self._look_ms,
            crash_limit=self._store.crash_limit,
            going_on=going_on,
            most=source.most,
        )
        if list(levels) == list(source.levels) and source.doubts == doubts:
            # What was handed back and which batches wait is not in the answer: who was notified of
            # that must still look.
            source.paused = bool(paused)
        else:
            source.doubt()
        taken = [
            delivery_of(source.queue, receipt, fields, epoch, count)
            for (receipt, fields), count in zip(entries, counts, strict=True)
        ]
        return taken, bool(more)

    async def promote(self, queue: str) -> Promotion:
        moved, wait, deaths = await script_stubs.promote(
            self._upkeep,
            self._store.keys(queue),
            events=self._store.events_kept(queue),
            consumer=self._signed,
            limit=_PROMOTE_MOST,
            ticket=_TICKET_MS,
        )
        self._report_deaths(queue, deaths)
        next_in = None if wait < 0 else wait / 1000
        return Promotion(moved, next_in, more=moved >= _PROMOTE_MOST)

    def _report_deaths(self, queue: str, reply: Sequence[Any]) -> None:
        if reply and self._on_deaths is not None:
            self._on_deaths(deaths_in(queue, reply))

    async def flow_messages(self, queue: str, limit: int = 500) -> list[FlowMessage]:
        entries = await script_stubs.flow_messages(
            self._upkeep,
            self._store.keys(queue),
            consumer=self._signed,
            limit=limit,
            ticket=_TICKET_MS,
        )
        messages: list[FlowMessage] = []
        odd: list[str] = []
        if any(is_move(fields) for _, fields in entries):
            await moves.deliver(self._store, queue)
        for id, fields in entries:
            if is_move(fields):
                continue
            try:
                messages.append(message_of(id, fields))
            except (KeyError, ValueError):
                # Its receiver is unknown: it must not hold up the others for ever.
                log.error(
                    "a message of queue %r cannot be read, and is dropped: %r",
                    queue,
                    fields,
                    extra={"queue": queue},
                )
                odd.append(id.decode())
        if odd:
            await script_stubs.ack_flow_messages(self._upkeep, self._store.keys(queue), entries=odd)
        return messages

    async def ack_flow_messages(self, queue: str, messages: Sequence[FlowMessage]) -> None:
        if messages:
            ids = [message.id for message in messages]
            await script_stubs.ack_flow_messages(self._upkeep, self._store.keys(queue), entries=ids)

    async def on_due(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._store.links().pubsub.add(self._store.keys(queue).due_channel, listener)

    async def on_control(self, queue: str, listener: Listener) -> ListenerHandle:
        def wake(job_ids: Sequence[JobId] | None) -> None:
            waking = asyncio.ensure_future(self._reading.wake())
            self._waking.add(waking)
            waking.add_done_callback(self._woken)
            listener(job_ids)

        return await self._store.links().pubsub.add(self._store.keys(queue).control_channel, wake)

    def _woken(self, waking: asyncio.Task[None]) -> None:
        self._waking.discard(waking)
        if not waking.cancelled() and (error := waking.exception()) is not None:
            # The wait ends by itself, a little later.
            log.debug("a read could not be woken: %s", error, extra={"error": str(error)})

    async def _make_anew(self) -> None:
        log.warning(
            "the streams or consumer groups of %s were deleted (queue removed? FLUSHALL?); they "
            "are created again",
            ", ".join(self._sources),
            extra={"queues": list(self._sources)},
        )
        await self._reading.prepare()


def message_of(id: bytes, fields: list[bytes]) -> FlowMessage:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    ending = JobEnding(State(named[b"s"].decode()), named[b"v"])
    arrival = Arrival(named[b"k"], named[b"p"], ending, named[b"a"] == b"1", int(named[b"n"]))
    return FlowMessage(id.decode(), named[b"q"].decode(), arrival)
