"""Adding jobs to the queues of a namespace."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.confirming import UNCONFIRMED, Confirming
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.store.queue_values import QueueBound
from headrace.store.redis import encoding, facts, script_stubs
from headrace.store.redis.connection.link import Argument, Link
from headrace.store.redis.keys import QueueKeys
from headrace.store.redis.namespace import RedisNamespace
from headrace.store.values import IdempotencyKey


class RedisSending(RedisNamespace):
    """The part of the store that takes new jobs."""

    async def append(
        self,
        queue: str,
        parcels: Sequence[Parcel],
        *,
        may_exist: bool = False,
        idempotency: IdempotencyKey | None = None,
        bound: QueueBound | None = None,
        confirm: Confirming = UNCONFIRMED,
    ) -> dict[int, JobId]:
        if not parcels:
            return {}
        links, keys = self.links(), self.keys(queue)
        if not self.is_announced(queue):
            await self.announce(links.send, queue)
        # A bounded queue may have to cancel jobs, with all that they hold.
        bound = bound if bound and bound.concerns(parcels) else None
        plain = bound is None and all(parcel.is_plain for parcel in parcels)
        sent = facts.of_parcels(parcels, listed=plain) if self.records_events else facts.NONE
        put = await self.confirming_link(confirm) if confirm else links.put
        if not plain:
            return await self._append_constrained(
                put, keys, parcels, may_exist, sent, idempotency, bound
            )
        jobs: list[Argument] = []
        for parcel in parcels:
            jobs += (parcel.job_id, encoding.when(parcel), parcel.envelope)
        known = await script_stubs.append(
            put,
            keys,
            events=self.events_kept(keys.queue),
            may_exist=may_exist,
            facts=sent.data,
            counts=sent.counts,
            jobs=jobs,
            idempotency=idempotency,
        )
        return {position - 1: parcels[position - 1].job_id for position in known}

    async def _append_constrained(
        self,
        link: Link,
        keys: QueueKeys,
        parcels: Sequence[Parcel],
        may_exist: bool,
        sent: facts.FactBatch,
        idempotency: IdempotencyKey | None,
        bound: QueueBound | None,
    ) -> dict[int, JobId]:
        known = await script_stubs.append_constrained(
            link,
            keys,
            events=self.events_kept(keys.queue),
            may_exist=may_exist,
            facts=sent.data,
            counts=sent.counts,
            most=bound.most if bound else 0,
            drops=bool(bound and bound.drops_oldest),
            most_per_key=bound.most_per_key if bound else 0,
            begun=next((each.constraints.flow for each in parcels if each.begins_flow), ""),
            jobs=[part for parcel in parcels for part in encoding.parts_of(parcel)],
            idempotency=idempotency,
        )
        return {at - 1: key for at, key in zip(known[::2], known[1::2], strict=True)}
