"""What the conformance tests stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from headrace.core import ids
from headrace.core.call import Parcel
from headrace.core.delivery import Delivery
from headrace.core.ids import JobKey
from headrace.core.job import Past, decode_envelope, done_verdict, encode_envelope, encode_past
from headrace.core.outcome import Done, Outcome
from headrace.store.contract import Consumer, Settlement, Store, reclaim_every

QUEUE = "conformance"
LEASE = 0.6


class Ground:
    """Small words for the tests: send, take, settle, wait until a lease is over."""

    async def pass_time(self, seconds: float) -> None:
        """Let the store's time pass; a store with a clock that can be moved overrides this."""
        await asyncio.sleep(seconds)

    async def send(self, store: Store, count: int = 1, queue: str = QUEUE) -> list[JobKey]:
        parcels = [parcel() for _ in range(count)]
        assert await store.append(queue, parcels) == [True] * count
        return [item.key for item in parcels]

    @pytest.fixture(autouse=True)
    async def _workers_leave(self, store: Store) -> AsyncIterator[None]:
        self._workers: list[Consumer] = []
        yield
        for worker in self._workers:
            await worker.close()

    def worker(self, store: Store, name: str = "", queues: Sequence[str] = (QUEUE,)) -> Consumer:
        worker = store.consumer(name or f"worker-{ids.new_key().hex()}", queues, LEASE)
        self._workers.append(worker)
        return worker

    async def take(self, consumer: Consumer, count: int = 1) -> list[Delivery]:
        """Exactly `count` deliveries, decoded as far as a store needs it."""
        taken: list[Delivery] = []
        for _ in range(50):
            taken += known(await consumer.fetch(count - len(taken), 0.1))
            if len(taken) == count:
                return taken
        raise AssertionError(f"{len(taken)} deliveries came instead of {count}")

    async def nothing_left(self, consumer: Consumer) -> None:
        assert await consumer.fetch(100, 0) == []

    async def settle(
        self, consumer: Consumer, deliveries: Sequence[Delivery], outcome: Outcome
    ) -> list[Delivery]:
        return await consumer.settle(
            deliveries[0].queue, [Settlement(delivery, outcome) for delivery in deliveries]
        )

    async def reclaim(
        self, consumer: Consumer, count: int, *, last_chance: bool = True, queue: str = QUEUE
    ) -> list[Delivery]:
        """Look as a worker does, at intervals, until so many jobs were taken over."""
        taken: list[Delivery] = []
        for _ in range(60):
            taken += known(await consumer.reclaim(queue, 100, last_chance=last_chance))
            if len(taken) >= count:
                return taken
            await self.pass_time(reclaim_every(LEASE) * 1.1)
        raise AssertionError(f"{len(taken)} jobs were taken over instead of {count}")

    async def look_regularly(
        self, consumer: Consumer, seconds: float, *, last_chance: bool = True
    ) -> list[Delivery]:
        """What is taken over while so much time passes."""
        taken: list[Delivery] = []
        every = reclaim_every(LEASE) * 1.1
        for _ in range(round(seconds / every) + 1):
            taken += known(await consumer.reclaim(QUEUE, 100, last_chance=last_chance))
            await self.pass_time(every)
        return taken


def parcel(
    job_id: str | None = None, *, delay_ms: int | None = None, at_ms: int | None = None
) -> Parcel:
    key = ids.new_key() if job_id is None else ids.to_key(job_id)
    return Parcel(key, encode_envelope(key, "task", b"\x90"), delay_ms, at_ms)


def known(deliveries: list[Delivery]) -> list[Delivery]:
    """As after the executor's first step: the key is read from the envelope."""
    for delivery in deliveries:
        delivery.key = decode_envelope(delivery.envelope).key
    return deliveries


def keys_of(deliveries: Sequence[Delivery]) -> list[JobKey]:
    return [delivery.key for delivery in deliveries]


def kept(value: bytes = b"\x01", seconds: float = 60.0) -> Done:
    return Done(done_verdict(value), int(seconds * 1000))


PAST = encode_past(Past(deliveries=1))
