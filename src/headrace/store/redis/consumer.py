"""One worker's side of the Redis store."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.delivery import Delivery
from headrace.core.limits import DEAD_KEPT_COUNT, DEAD_KEPT_DAYS
from headrace.core.outcome import Again, Dead, Done
from headrace.store.contract import Hear, Promotion, Settlement, Subscription, reclaim_every
from headrace.store.redis import scripts
from headrace.store.redis.ear import encode_keys
from headrace.store.redis.faults import NoGroup
from headrace.store.redis.keys import GROUP, signed
from headrace.store.redis.link import Argument, Link

if TYPE_CHECKING:
    from headrace.store.redis.store import RedisStore

log = logging.getLogger("headrace.store")

_DEAD_KEPT_MS = DEAD_KEPT_DAYS * 86_400_000
# Lua hands at most 8,000 values to one command; a settlement has up to five.
_SETTLE_MOST = 1000
_SETTLE_BYTES = 8 * 1024 * 1024
_PROMOTE_MOST = 500
_PROMOTER_TICKET_MS = 2000
_BLOCK_MOST = 5.0
_RECOVER_MOST = 1000


class RedisConsumer:
    """See `headrace.store.contract.Consumer`."""

    def __init__(self, store: RedisStore, name: str, queues: Sequence[str], lease: float) -> None:
        self.name = name
        self._store = store
        self._signed = signed(name, int(lease * 1000))
        self._queues = list(queues)
        self._lease_ms = int(lease * 1000)
        self._look_ms = int(reclaim_every(lease) * 1000)
        # Blocking reads, settlements and upkeep do not wait for each other.
        self._reading = Link(store.server.connect)
        self._settling = Link(store.server.connect)
        self._upkeep = Link(store.server.connect)
        self._queue_of = {store.keys(queue).ready.encode(): queue for queue in queues}
        # The epoch of each queue as it was before the latest read: leases of what was read are
        # surely held as long as the epoch is the same.
        self._epochs: dict[str, int] = {}
        self._interrupted = False

    async def fetch(self, limit: int, wait: float) -> list[Delivery]:
        if len(self._epochs) < len(self._queues):
            await self._prepare()
        queues = self._next_queues(limit)
        if len(queues) < len(self._queues):
            # The others are not watched meanwhile: come round quickly.
            wait = min(wait, 0.05)
        # Taken before the read: a worker that slept between a reply and its parsing must not hold
        # its deliveries for newer than they are.
        stamps = self._epochs.copy()
        try:
            reply = await self._read(queues, max(1, limit // len(queues)), wait)
        except NoGroup:
            await self._make_anew()
            return []
        deliveries: list[Delivery] = []
        for ready, entries in reply or ():
            queue = self._queue_of[ready]
            stamp = stamps[queue]
            for receipt, fields in entries:
                delivery = _delivery(queue, receipt, fields)
                delivery.stamp = stamp
                deliveries.append(delivery)
        return deliveries

    async def interrupt(self) -> None:
        self._interrupted = True
        if self._reading.client_id is not None:
            await self._upkeep.call("CLIENT", "UNBLOCK", self._reading.client_id)

    async def recover(self, held: Collection[Delivery]) -> list[Delivery]:
        await self._prepare()
        receipts = {(delivery.queue, delivery.receipt) for delivery in held}
        found: list[Delivery] = []
        for queue in self._queues:
            keys = self._store.keys(queue)
            pending = await self._upkeep.call(
                "XPENDING", keys.ready, GROUP, "-", "+", _RECOVER_MOST, self._signed
            )
            stray = {row[0]: row[3] for row in pending if (queue, row[0]) not in receipts}
            for receipt, count in stray.items():
                entries = await self._upkeep.call("XRANGE", keys.ready, receipt, receipt)
                stamp = self._epochs[queue]
                found += [_taken(queue, id, fields, count, stamp) for id, fields in entries]
        return found

    async def settle(
        self, queue: str, settlements: Sequence[Settlement], *, repeat: bool = False
    ) -> list[Delivery]:
        lost: list[Delivery] = []
        for part in _parts(settlements):
            lost += await self._settle(queue, part, repeat)
        return lost

    async def renew(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        # The asking link of the loop that renews, which is not the worker's.
        link = self._store.links().ask
        lost: list[Delivery] = []
        for queue in {delivery.queue for delivery in deliveries}:
            mine = [delivery for delivery in deliveries if delivery.queue == queue]
            pairs = [item for d in mine for item in (d.receipt, d.count)]
            gone = set(
                await scripts.renew(
                    link, self._store.keys(queue), consumer=self._signed, deliveries=pairs
                )
            )
            lost += [delivery for delivery in mine if delivery.receipt in gone]
        return lost

    async def reclaim(self, queue: str, limit: int, *, last_chance: bool) -> list[Delivery]:
        # Read before, so that no take-over goes unnoticed between the two.
        stamp = await self._epoch(queue)
        try:
            entries, counts = await scripts.reclaim(
                self._upkeep,
                self._store.keys(queue),
                consumer=self._signed,
                limit=limit,
                last_chance=last_chance,
                lease=self._lease_ms,
                interval=self._look_ms,
                crash_limit=self._store.crash_limit,
                dead_ms=_DEAD_KEPT_MS,
            )
        except NoGroup:
            await self._make_anew()
            return []
        return [
            _taken(queue, id, fields, count, stamp)
            for (id, fields), count in zip(entries, counts, strict=True)
        ]

    async def promote(self, queue: str) -> Promotion:
        moved, wait = await scripts.promote(
            self._upkeep,
            self._store.keys(queue),
            consumer=self._signed,
            limit=_PROMOTE_MOST,
            ticket=_PROMOTER_TICKET_MS,
        )
        next_in = None if wait < 0 else wait / 1000
        return Promotion(moved, next_in, more=moved == _PROMOTE_MOST)

    async def hear_due(self, queue: str, hear: Hear) -> Subscription:
        return await self._store.links().ear.add(self._store.keys(queue).due_channel, hear)

    async def close(self) -> None:
        try:
            for queue in self._queues:
                await self._leave(queue)
        finally:
            for link in (self._reading, self._settling, self._upkeep):
                await link.drop()

    async def _leave(self, queue: str) -> None:
        try:
            await scripts.leave(self._upkeep, self._store.keys(queue), consumer=self._signed)
        except NoGroup:
            return

    async def _prepare(self) -> None:
        for queue in self._queues:
            self._epochs[queue] = await scripts.prepare(self._upkeep, self._store.keys(queue))
        await self._store.announce(self._upkeep, *self._queues)

    async def _make_anew(self) -> None:
        log.warning(
            "the streams or consumer groups of %s were deleted (FLUSHALL?); they are made anew",
            ", ".join(self._queues),
        )
        await self._prepare()

    async def _epoch(self, queue: str) -> int:
        if queue not in self._epochs:
            await self._prepare()
        return self._epochs[queue]

    def _next_queues(self, limit: int) -> list[str]:
        """The queues to read, at most `limit`, since each may answer with a job; each call begins
        with another, so none is always last."""
        if len(self._queues) == 1:
            return self._queues
        self._queues.append(self._queues.pop(0))
        return self._queues[:limit]

    async def _read(self, queues: Sequence[str], count: int, wait: float) -> Any:
        command: list[Argument] = ["XREADGROUP", "GROUP", GROUP, self._signed, "COUNT", count]
        if wait > 0 and not self._interrupted:
            await self._reading.identify()
            wait = min(wait, _BLOCK_MOST)
            command += ["BLOCK", max(1, int(wait * 1000))]
        command.append("STREAMS")
        command += [self._store.keys(queue).ready for queue in queues]
        command += [">"] * len(queues)
        return await self._reading.call(*command, timeout=wait + 10)

    async def _settle(
        self, queue: str, settlements: Sequence[Settlement], checked: bool
    ) -> list[Delivery]:
        batch = _Batch(settlements)
        while True:
            reply = await self._send_settle(queue, batch, checked)
            if reply[0] == b"lost":
                break
            # Somewhere a lease was taken from its holder: see which of these are still ours.
            self._epochs[queue] = int(reply[1])
            checked = True
        if len(reply) == 1:
            return []
        gone = set(reply[1:])
        return [item.delivery for item in settlements if item.delivery.receipt in gone]

    async def _send_settle(self, queue: str, batch: _Batch, checked: bool) -> list[bytes]:
        return await scripts.settle(
            self._settling,
            self._store.keys(queue),
            consumer=self._signed,
            epoch=batch.epoch,
            checked=checked,
            finished=batch.finished,
            dead_most=DEAD_KEPT_COUNT,
            dead_ms=_DEAD_KEPT_MS,
            done=len(batch.done),
            kept=len(batch.kept),
            again=batch.again,
            dead=batch.dead,
            released=batch.released,
            blocks=batch.blocks(checked),
        )


class _Batch:
    """Settlements, sorted into the blocks that `settle.lua` takes."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.done: list[Delivery] = []
        self.kept: list[tuple[Delivery, Done]] = []
        self.again = self.dead = self.released = 0
        self._again: list[Argument] = []
        self._dead: list[Argument] = []
        self._released: list[Argument] = []
        self.epoch = min(item.delivery.stamp for item in settlements)
        finished: list[bytes] = []
        for item in settlements:
            self._sort(item, finished)
        self.finished = encode_keys(finished) if finished else b""

    def _sort(self, item: Settlement, finished: list[bytes]) -> None:
        delivery, outcome = item.delivery, item.outcome
        if isinstance(outcome, Done):
            if outcome.verdict:
                self.kept.append((delivery, outcome))
                finished.append(delivery.key)
            else:
                self.done.append(delivery)
        elif isinstance(outcome, Again):
            self.again += 1
            self._again += (*_identity(delivery), outcome.delay_ms, outcome.past, delivery.envelope)
        elif isinstance(outcome, Dead):
            self.dead += 1
            self._dead += (*_identity(delivery), outcome.reason, outcome.past, delivery.envelope)
            self._dead += (outcome.verdict, max(outcome.ttl_ms, 1))
            finished.append(delivery.key)
        else:
            self.released += 1
            self._released += _identity(delivery)

    def blocks(self, checked: bool) -> list[Argument]:
        done, kept = self.done, self.kept
        blocks: list[Argument] = [delivery.receipt for delivery in done]
        blocks += [delivery.key for delivery in done]
        if checked:
            blocks += [delivery.count for delivery in done]
        if kept:
            blocks += [delivery.receipt for delivery, _ in kept]
            blocks += [delivery.key for delivery, _ in kept]
            if checked:
                blocks += [delivery.count for delivery, _ in kept]
            blocks += [outcome.verdict for _, outcome in kept]
            blocks += [max(outcome.ttl_ms, 1) for _, outcome in kept]
        return blocks + self._again + self._dead + self._released


def _parts(settlements: Sequence[Settlement]) -> Iterator[Sequence[Settlement]]:
    """Batches that are bounded both ways: many small outcomes, or a few large ones."""
    start = size = 0
    for at, item in enumerate(settlements):
        if at - start >= _SETTLE_MOST or (size > _SETTLE_BYTES and at > start):
            yield settlements[start:at]
            start, size = at, 0
        outcome = item.outcome
        if isinstance(outcome, Done):
            size += len(outcome.verdict)
        else:
            size += len(item.delivery.envelope)
    yield settlements[start:]


def _identity(delivery: Delivery) -> tuple[Argument, bytes, int]:
    # What is not an envelope has no key; it still gets a name under which it can be found.
    receipt = delivery.receipt
    assert isinstance(receipt, bytes)
    return receipt, delivery.key or b"=entry-" + receipt, delivery.count


def _taken(
    queue: str, receipt: bytes, fields: list[bytes] | None, count: int, stamp: int
) -> Delivery:
    """A delivery that was made before, to this consumer or another."""
    delivery = _delivery(queue, receipt, fields)
    delivery.count, delivery.stamp = count, stamp
    return delivery


def _delivery(queue: str, receipt: bytes, fields: list[bytes] | None) -> Delivery:
    if fields and fields[0] == b"j":
        if len(fields) == 2:
            return Delivery(queue, receipt, fields[1])
        if len(fields) == 4 and fields[2] == b"h":
            return Delivery(queue, receipt, fields[1], fields[3])
    # Not ours: keep all there is, so that it can be looked at among the dead jobs.
    return Delivery(queue, receipt, msgspec.msgpack.encode(fields or []))
