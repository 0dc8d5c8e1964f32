"""One worker's side of the Redis store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.bounds import DEAD_KEPT_DAYS
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import peek_key
from headrace.core.job.outcome import RELEASED
from headrace.core.job.state import State
from headrace.core.job.tally import Tally
from headrace.errors import StoreError
from headrace.store.contract import Listener, ListenerHandle, Promotion, Settlement, reclaim_every
from headrace.store.redis import scripts
from headrace.store.redis.connection.errors import NoGroup
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.keys import signed
from headrace.store.redis.read.group_reader import GroupReader
from headrace.store.redis.read.queue_reader import QueueReader
from headrace.store.redis.read.source import ReadSource, delivery_of, ready_ms
from headrace.store.redis.settlement_batch import Batch, parts
from headrace.store.values import Arrival, FlowMessage, IdempotencyKey, JobEnding

if TYPE_CHECKING:
    from headrace.core.job.ids import JobKey
    from headrace.store.redis.topics import RedisTopics

log = logging.getLogger("headrace.store")

_DEAD_KEPT_MS = DEAD_KEPT_DAYS * 86_400_000
_PROMOTE_MOST = 500
_TICKET_MS = 2000
_RECOVER_MOST = 1000


class RedisConsumer:
    """See `headrace.store.contract.Consumer`."""

    def __init__(
        self,
        store: RedisTopics,
        name: str,
        queues: Mapping[str, int],
        lease: float,
        *,
        strict: bool,
    ) -> None:
        self.name = name
        self._store = store
        self._signed = signed(name, int(lease * 1000))
        self._lease_ms = int(lease * 1000)
        self._look_ms = int(reclaim_every(lease) * 1000)
        kind = GroupReader if any("@" in queue for queue in queues) else QueueReader
        self._reading = kind(store, self._signed, queues, self._hand_back, strict=strict)
        self._sources = self._reading.sources
        # Settlements and upkeep do not wait for each other.
        self._settling = store.server.link()
        self._upkeep = store.server.link()
        self._waking: set[asyncio.Task[None]] = set()

    async def fetch(self, limit: int, wait: float) -> list[LeasedDelivery]:
        try:
            return await self._reading.fetch(limit, wait)
        except NoGroup:
            await self._make_anew()
            return []

    async def interrupt(self) -> None:
        await self._reading.interrupt()

    async def recover(self, held: Collection[LeasedDelivery]) -> list[LeasedDelivery]:
        await self._reading.prepare()
        known = {(delivery.queue, delivery.receipt, delivery.count) for delivery in held}
        found: list[LeasedDelivery] = []
        for queue, source in self._sources.items():
            keys = self._store.keys(queue)
            for stream, prefix in source.streams(keys):
                for id, count in await self._pending(stream, source.group):
                    if (queue, prefix + id, count) not in known:
                        entries = await self._upkeep.call("XRANGE", stream, id, id, key=stream)
                        found += [
                            delivery_of(queue, prefix + id, fields, source.epoch, count)
                            for _, fields in entries
                        ]
        return found

    async def begin(
        self,
        queue: str,
        deliveries: Sequence[LeasedDelivery],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[LeasedDelivery, str]:
        jobs: list[Argument] = [item for d in deliveries for item in (d.key, d.constraints)]
        gates = await scripts.begin(
            self._settling,
            self._store.keys(queue),
            events=self._store.events_most,
            jobs=jobs,
            idempotency=idempotency,
        )
        return {
            delivery: gate.decode()
            for delivery, gate in zip(deliveries, gates, strict=True)
            if gate
        }

    async def settle(
        self,
        queue: str,
        settlements: Sequence[Settlement],
        *,
        repeat: bool = False,
        tally: Tally | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> list[LeasedDelivery]:
        lost: list[LeasedDelivery] = []
        for at, part in enumerate(parts(settlements)):
            given = tally if len(part) == len(settlements) else None
            step = idempotency.part(at) if idempotency else IdempotencyKey()
            if not step.answered:
                # Not asked for again when a later part fails: its number is not the last any more.
                step.answer = await self._settle(
                    queue, part, self._tally(part, given), repeat, step
                )
                step.answered = True
            lost += step.answer
        return lost

    def _tally(self, settlements: Sequence[Settlement], given: Tally | None) -> Tally | None:
        if not self._store.events_most:
            return None
        return given or Tally.of(settlements, self.ready_ms)

    def ready_ms(self, delivery: LeasedDelivery) -> int:
        return ready_ms(delivery.receipt)

    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        # The asking link of the loop that renews, which is not the worker's.
        link = self._store.links().ask
        lost: list[LeasedDelivery] = []
        trouble: StoreError | None = None
        for queue in {delivery.queue for delivery in deliveries}:
            mine = [delivery for delivery in deliveries if delivery.queue == queue]
            pairs = [item for d in mine for item in (d.receipt, d.count)]
            try:
                gone = await scripts.renew(
                    link, self._store.keys(queue), consumer=self._signed, deliveries=pairs
                )
            except StoreError as error:
                # The leases of other queues, on other nodes, must not run out over it.
                trouble = error
                continue
            lost += _named(gone, mine)
        if trouble is not None:
            raise trouble
        return lost

    async def reclaim(self, queue: str, limit: int, *, last_chance: bool) -> list[LeasedDelivery]:
        source = self._sources[queue]
        if source.known_at == float("-inf"):
            await self._reading.prepare()
        found: list[LeasedDelivery] = []
        more, going_on = True, False
        try:
            while more and len(found) < limit:
                free = last_chance and all(each.count < self._store.crash_limit for each in found)
                taken, more = await self._reclaim(source, limit - len(found), free, going_on)
                found += taken
                going_on = True
        except NoGroup:
            await self._make_anew()
        return found

    async def _reclaim(
        self, source: ReadSource, limit: int, last_chance: bool, going_on: bool
    ) -> tuple[list[LeasedDelivery], bool]:
        """One step of a look: what it took over, and whether there is more to look at. It is
        short, however much is pending, so that the server has time for others in between."""
        # Read before, so that no take-over goes unnoticed between the two.
        epoch = source.epoch
        entries, counts, levels, paused, more = await scripts.reclaim(
            self._upkeep,
            self._store.keys(source.queue),
            events=self._store.events_most,
            consumer=self._signed,
            limit=limit,
            last_chance=last_chance,
            lease=self._lease_ms,
            interval=self._look_ms,
            crash_limit=self._store.crash_limit,
            dead_ms=_DEAD_KEPT_MS,
            going_on=going_on,
        )
        if list(levels) == list(source.levels):
            source.learn(levels, paused, source.waiting)
        else:
            source.doubt()
        taken = [
            delivery_of(source.queue, receipt, fields, epoch, count)
            for (receipt, fields), count in zip(entries, counts, strict=True)
        ]
        return taken, bool(more)

    async def promote(self, queue: str) -> Promotion:
        moved, wait = await scripts.promote(
            self._upkeep,
            self._store.keys(queue),
            events=self._store.events_most,
            consumer=self._signed,
            limit=_PROMOTE_MOST,
            ticket=_TICKET_MS,
        )
        next_in = None if wait < 0 else wait / 1000
        return Promotion(moved, next_in, more=moved >= _PROMOTE_MOST)

    async def flow_messages(self, queue: str, limit: int = 500) -> list[FlowMessage]:
        entries = await scripts.flow_messages(
            self._upkeep,
            self._store.keys(queue),
            consumer=self._signed,
            limit=limit,
            ticket=_TICKET_MS,
        )
        messages: list[FlowMessage] = []
        odd: list[str] = []
        for id, fields in entries:
            try:
                messages.append(_message(id, fields))
            except (KeyError, ValueError):
                # To whom it was, nobody can tell: it must not stand before the others for ever.
                log.error("a message of queue %r cannot be read, and is dropped: %r", queue, fields)
                odd.append(id.decode())
        if odd:
            await scripts.ack_flow_messages(self._upkeep, self._store.keys(queue), entries=odd)
        return messages

    async def ack_flow_messages(self, queue: str, messages: Sequence[FlowMessage]) -> None:
        if messages:
            ids = [message.id for message in messages]
            await scripts.ack_flow_messages(self._upkeep, self._store.keys(queue), entries=ids)

    async def on_due(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._store.links().pubsub.add(self._store.keys(queue).due_channel, listener)

    async def on_control(self, queue: str, listener: Listener) -> ListenerHandle:
        def heed(keys: Sequence[JobKey] | None) -> None:
            waking = asyncio.ensure_future(self._reading.wake())
            self._waking.add(waking)
            waking.add_done_callback(self._woken)
            listener(keys)

        return await self._store.links().pubsub.add(self._store.keys(queue).control_channel, heed)

    async def close(self) -> None:
        trouble: StoreError | None = None
        for queue in self._sources:
            try:
                await self._leave(queue)
            except StoreError as error:
                trouble = error
        try:
            if trouble is not None:
                raise trouble
        finally:
            await self._reading.close()
            for link in (self._settling, self._upkeep):
                await link.drop()

    async def _hand_back(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """As if they had not been read; nobody is told of it."""
        for delivery in deliveries:
            delivery.key = peek_key(delivery.envelope)
        for queue in {delivery.queue for delivery in deliveries}:
            mine = [Settlement(each, RELEASED) for each in deliveries if each.queue == queue]
            await self._settle(queue, mine, None, False, IdempotencyKey())

    def _woken(self, waking: asyncio.Task[None]) -> None:
        self._waking.discard(waking)
        if not waking.cancelled() and (error := waking.exception()) is not None:
            # The wait ends by itself, a little later.
            log.debug("a read could not be woken: %s", error)

    async def _leave(self, queue: str) -> None:
        try:
            await scripts.leave(self._upkeep, self._store.keys(queue), consumer=self._signed)
        except NoGroup:
            return

    async def _pending(self, stream: str, group: str) -> list[tuple[bytes, int]]:
        rows = await self._upkeep.call(
            "XPENDING", stream, group, "-", "+", _RECOVER_MOST, self._signed, key=stream
        )
        return [(row[0], row[3]) for row in rows]

    async def _make_anew(self) -> None:
        log.warning(
            "the streams or consumer groups of %s were deleted (FLUSHALL?); they are made anew",
            ", ".join(self._sources),
        )
        await self._reading.prepare()

    async def _settle(
        self,
        queue: str,
        held: Sequence[Settlement],
        tally: Tally | None,
        checked: bool,
        idempotency: IdempotencyKey,
    ) -> list[LeasedDelivery]:
        # Of an earlier try, too: what it found gone is not part of what it was answered.
        lost: list[LeasedDelivery] = idempotency.answer or []
        batch = Batch(held, tally)
        while True:
            said, *rest = await self._send_settle(queue, batch, checked, idempotency)
            if said != b"lost":
                # Nothing was written under this number, and others may come before the next try.
                self._store.server.abandoned.renumber(idempotency)
            if said == b"epoch":
                # Somewhere a lease was taken from its holder: see which of these are still ours.
                self._sources[queue].epoch = int(rest[0])
                checked = True
                continue
            lost = [*lost, *_named(rest, [item.delivery for item in held])] if rest else lost
            if said == b"lost":
                return lost
            # Nothing was written yet: what is left goes and is counted by itself.
            idempotency.answer = lost
            gone = set(lost)
            held = [item for item in held if item.delivery not in gone]
            if not held:
                return lost
            batch = Batch(held, tally and self._tally(held, None))

    async def _send_settle(
        self, queue: str, batch: Batch, checked: bool, idempotency: IdempotencyKey
    ) -> list[bytes]:
        return await scripts.settle(
            self._settling,
            self._store.keys(queue),
            events=self._store.events_most,
            consumer=self._signed,
            epoch=batch.epoch,
            checked=checked,
            finished=batch.finished,
            facts_count=batch.facts.count,
            facts=batch.facts.data,
            counts=batch.facts.counts,
            done=len(batch.done),
            kept=len(batch.kept),
            constrained=batch.constrained,
            moved=batch.moved,
            from_log=len(batch.from_log),
            blocks=batch.blocks(checked),
            idempotency=idempotency,
        )


def _named(pairs: Sequence[bytes], deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
    """Those of the deliveries that a script names, by receipts and counts in turn."""
    named = {(receipt, int(count)) for receipt, count in zip(pairs[::2], pairs[1::2], strict=True)}
    return [each for each in deliveries if (each.receipt, each.count) in named]


def _message(id: bytes, fields: list[bytes]) -> FlowMessage:
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    ending = JobEnding(State(named[b"s"].decode()), named[b"v"])
    arrival = Arrival(named[b"k"], named[b"p"], ending, named[b"a"] == b"1")
    return FlowMessage(id.decode(), named[b"q"].decode(), arrival)
