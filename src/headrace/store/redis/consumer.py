"""One worker's side of the Redis store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import peek_id
from headrace.core.job.outcome import RELEASED, Released, check_outcomes
from headrace.core.job.tally import Tally
from headrace.errors import StoreError
from headrace.store.contract import RunStart, Settlement
from headrace.store.deaths import DeathListener
from headrace.store.fact_block import encode_fact
from headrace.store.redis import script_stubs
from headrace.store.redis.connection.errors import NoGroup
from headrace.store.redis.connection.link import Argument
from headrace.store.redis.keys import signed
from headrace.store.redis.read.group_reader import GroupReader
from headrace.store.redis.read.queue_reader import RedisReader
from headrace.store.redis.read.source import delivery_of, ready_ms
from headrace.store.redis.settlement_batch import KNOWN, Batch, named, parts
from headrace.store.redis.upkeep import RedisUpkeep
from headrace.store.values import IdempotencyKey

if TYPE_CHECKING:
    from headrace.store.redis.topics import RedisTopics

_RECOVER_MOST = 1000


class RedisConsumer(RedisUpkeep):
    """See `headrace.store.contract.StoreConsumer`."""

    def __init__(
        self,
        store: RedisTopics,
        name: str,
        queues: Mapping[str, int],
        lease: float,
        *,
        strict: bool,
        on_deaths: DeathListener | None,
        bounds: Mapping[str, int],
    ) -> None:
        kind = GroupReader if any("@" in queue for queue in queues) else RedisReader
        member, died = signed(name, int(lease * 1000)), self._report_deaths
        reading = kind(store, member, queues, self._hand_back, died, bounds, strict=strict)
        super().__init__(store, name, lease, reading, on_deaths)
        self._settling = store.server.link()

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        try:
            return await self._reading.fetch(limit, wait, capacity)
        except NoGroup:
            await self._make_anew()
            return []

    async def interrupt(self) -> None:
        await self._reading.interrupt()

    async def wake(self) -> None:
        await self._reading.end_wait()

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
        jobs: list[Argument] = [item for d in deliveries for item in (d.job_id, d.constraints)]
        gates = await script_stubs.begin(
            self._settling,
            self._store.keys(queue),
            events=self._store.events_kept(queue),
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
        # Of all parts, before the first is written.
        check_outcomes([each.outcome for each in settlements], KNOWN)
        lost: list[LeasedDelivery] = []
        for at, part in enumerate(parts(settlements)):
            given = tally if len(part) == len(settlements) else None
            step = idempotency.part(at) if idempotency else IdempotencyKey()
            if not step.answered:
                # Not repeated if a later part fails: its number is then no longer the last.
                step.answer = await self._settle(
                    queue, part, self._tally(part, given), repeat, step
                )
                step.answered = True
            lost += step.answer
        return lost

    def _tally(self, settlements: Sequence[Settlement], given: Tally | None) -> Tally | None:
        if not self._store.records_events:
            return None
        return given or Tally.of(settlements, self.ready_ms)

    def ready_ms(self, delivery: LeasedDelivery) -> int:
        return ready_ms(delivery.receipt)

    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        # The link of the loop that renews, which is not the worker's.
        link = self._store.links().ask
        lost: list[LeasedDelivery] = []
        trouble: StoreError | None = None
        for queue in {delivery.queue for delivery in deliveries}:
            mine = [delivery for delivery in deliveries if delivery.queue == queue]
            pairs = [item for d in mine for item in (d.receipt, d.count)]
            try:
                gone = await script_stubs.renew(
                    link, self._store.keys(queue), consumer=self._signed, deliveries=pairs
                )
            except StoreError as error:
                # It must not let the leases of other queues, on other nodes, run out.
                trouble = error
                continue
            lost += named(gone, mine)
        if trouble is not None:
            raise trouble
        return lost

    async def record_starts(
        self,
        queue: str,
        starts: Sequence[RunStart],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        if not self._store.records_events:
            return
        facts = [(each.delivery, encode_fact(each.fact)) for each in starts]
        # If the queue was removed, nothing of it is held.
        with suppress(NoGroup):
            await script_stubs.record_starts(
                self._store.links().ask,
                self._store.keys(queue),
                events=self._store.events_kept(queue),
                consumer=self._signed,
                starts=[item for d, fact in facts for item in (d.receipt, d.count, fact)],
                idempotency=idempotency,
            )

    async def close(self) -> None:
        try:
            await self._leave_all()
        finally:
            # Also if the caller does not wait for a server that is silent.
            await self._reading.close()
            for link in (self._settling, self._upkeep):
                await link.drop()

    async def _leave_all(self) -> None:
        trouble: StoreError | None = None
        for queue in self._sources:
            try:
                await script_stubs.leave(
                    self._upkeep, self._store.keys(queue), consumer=self._signed
                )
            except NoGroup:
                continue
            except StoreError as error:
                trouble = error
        if trouble is not None:
            raise trouble

    async def _hand_back(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """As if they had not been read, and without a fact."""
        for delivery in deliveries:
            delivery.job_id = peek_id(delivery.envelope)
        for queue in {delivery.queue for delivery in deliveries}:
            mine = [Settlement(each, RELEASED) for each in deliveries if each.queue == queue]
            await self._settle(queue, mine, None, False, IdempotencyKey())

    async def _pending(self, stream: str, group: str) -> list[tuple[bytes, int]]:
        rows = await self._upkeep.call(
            "XPENDING", stream, group, "-", "+", _RECOVER_MOST, self._signed, key=stream
        )
        return [(row[0], row[3]) for row in rows]

    async def _settle(
        self,
        queue: str,
        held: Sequence[Settlement],
        tally: Tally | None,
        checked: bool,
        idempotency: IdempotencyKey,
    ) -> list[LeasedDelivery]:
        # Of an earlier try, too: its answer does not repeat what it found gone.
        lost: list[LeasedDelivery] = idempotency.answer or []
        rules = self._store.rules_of(queue)
        batch = Batch(held, tally, rules, self.name)
        while True:
            said, *rest = await self._send_settle(queue, batch, checked, idempotency)
            if said != b"lost":
                # Nothing was written under this number, and others may come before the next try.
                self._store.server.abandoned.renumber(idempotency)
            if said == b"epoch":
                # A lease was taken from some holder: find out which of these are still ours.
                self._sources[queue].epoch = int(rest[0])
                checked = True
                continue
            if said == b"lost":
                self._report_deaths(queue, rest.pop(0))
            lost = [*lost, *named(rest, [item.delivery for item in held])] if rest else lost
            if said == b"lost":
                if batch.moved and any(isinstance(item.outcome, Released) for item in held):
                    # The next read has to bring these first.
                    self._sources[queue].doubt()
                return lost
            # Nothing was written yet: the rest is sent again, with a count of its own.
            idempotency.answer = lost
            gone = set(lost)
            held = [item for item in held if item.delivery not in gone]
            if not held:
                return lost
            batch = Batch(held, tally and self._tally(held, None), rules, self.name)

    async def _send_settle(
        self, queue: str, batch: Batch, checked: bool, idempotency: IdempotencyKey
    ) -> list[Any]:
        return await script_stubs.settle(
            self._settling,
            self._store.keys(queue),
            events=self._store.events_kept(queue),
            consumer=self._signed,
            epoch=batch.epoch,
            checked=checked,
            finished=batch.finished,
            facts_count=batch.facts.count,
            facts=batch.facts.data,
            counts=batch.facts.counts,
            done=len(batch.done),
            kept=len(batch.kept),
            labels=batch.labels,
            constrained=batch.constrained,
            moved=batch.moved,
            from_log=len(batch.from_log),
            shelves=len(batch.history),
            bounded=self._sources[queue].most > 0,
            blocks=batch.blocks(checked),
            idempotency=idempotency,
        )
