"""The base class and helpers of the conformance tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from headrace.core.job import ids
from headrace.core.job.capacity import Runner
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import decode_envelope, encode_envelope
from headrace.core.job.history import History, encode_history
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Cancelled, Done, Held, Outcome
from headrace.core.job.parcel import Child, Parcel, Tick
from headrace.core.job.state import State
from headrace.core.job.verdict import done_verdict
from headrace.store.contract import JobSnapshot, Settlement, Store, StoreConsumer, reclaim_every
from headrace.store.deaths import DeathListener

QUEUE = "conformance"
LEASE = 60.0


class Ground:
    """Short verbs for the tests: send, take, settle, wait until a lease is over."""

    async def pass_time(self, seconds: float) -> None:
        """Move the store's time. Override this: no test waits for a lease, and none depends on how
        fast a machine is."""
        raise NotImplementedError("override pass_time(): it moves the time of the store")

    async def left_behind(self, store: Store) -> list[str]:
        """What the store holds beyond an empty one, by name; override this if the store can be
        inspected. Called when all workers have left and everything with a time limit has
        expired."""
        return []

    async def send(self, store: Store, count: int = 1, queue: str = QUEUE) -> list[JobId]:
        parcels = [parcel() for _ in range(count)]
        assert await store.append(queue, parcels) == {}
        return [item.job_id for item in parcels]

    @pytest.fixture(autouse=True)
    async def _workers_leave(self, store: Store) -> AsyncIterator[None]:
        self._workers: list[StoreConsumer] = []
        yield
        for worker in self._workers:
            await worker.close()

    def worker(
        self,
        store: Store,
        name: str = "",
        queues: Mapping[str, int] | Sequence[str] = (QUEUE,),
        *,
        strict: bool = False,
        lease: float = LEASE,
        on_deaths: DeathListener | None = None,
    ) -> StoreConsumer:
        name = name or f"worker-{ids.new_id().hex()}"
        worker = store.consumer(name, queues, lease, strict=strict, on_deaths=on_deaths)
        self._workers.append(worker)
        return worker

    async def take(self, consumer: StoreConsumer, count: int = 1) -> list[LeasedDelivery]:
        """Take exactly `count` deliveries, decoded as far as a store needs it."""
        taken: list[LeasedDelivery] = []
        for _ in range(50):
            taken += known(await consumer.fetch(count - len(taken), 0.1))
            if len(taken) == count:
                return taken
        raise AssertionError(f"{len(taken)} deliveries came instead of {count}")

    async def nothing_left(self, consumer: StoreConsumer) -> None:
        assert await consumer.fetch(100, 0) == []

    async def settle(
        self, consumer: StoreConsumer, deliveries: Sequence[LeasedDelivery], outcome: Outcome
    ) -> list[LeasedDelivery]:
        if not deliveries:
            return []
        return await consumer.settle(
            deliveries[0].queue, [Settlement(delivery, outcome) for delivery in deliveries]
        )

    async def end(
        self,
        store: Store,
        consumer: StoreConsumer,
        deliveries: Sequence[LeasedDelivery],
        outcome: Outcome,
    ) -> None:
        """Settle deliveries; as cancelled only after a cancel request."""
        if isinstance(outcome, Cancelled):
            job_ids = ids_of(deliveries)
            assert await store.cancel(deliveries[0].queue, job_ids) == [State.RUNNING] * len(
                job_ids
            )
        assert await self.settle(consumer, deliveries, outcome) == []

    async def start(self, worker: StoreConsumer, count: int = 1) -> list[bytes]:
        """Take this many jobs, begin them, and settle them as done."""
        taken = await self.take(worker, count)
        assert await worker.begin(QUEUE, taken) == {}
        await self.settle(worker, taken, DONE)
        return ids_of(taken)

    async def run_all(
        self,
        store: Store,
        worker: StoreConsumer,
        outcome: Outcome = DONE,
        *,
        queues: Sequence[str] = (QUEUE,),
        at_once: int = 100,
    ) -> list[JobId]:
        """Do what workers do until nothing is left that could run, now or later; returns the jobs
        that ran, in order."""
        ran: list[JobId] = []
        while True:
            next_in = await self.upkeep(store, worker, queues)
            taken = known(await worker.fetch(at_once, 0))
            for queue in queues:
                mine = [delivery for delivery in taken if delivery.queue == queue]
                ran += await self.run(worker, mine, outcome)
            if not taken:
                if next_in is None:
                    return ran
                await self.pass_time(next_in + 0.002)

    async def run(
        self, worker: StoreConsumer, deliveries: Sequence[LeasedDelivery], outcome: Outcome
    ) -> list[JobId]:
        """Begin and settle jobs of one queue, as far as their limits allow; returns those that
        ran."""
        if not deliveries:
            return []
        refused = await worker.begin(deliveries[0].queue, deliveries)
        for delivery, gate in refused.items():
            assert await self.settle(worker, [delivery], Held(gate, HISTORY)) == []
        begun = [delivery for delivery in deliveries if delivery not in refused]
        assert await self.settle(worker, begun, outcome) == []
        return ids_of(begun)

    async def upkeep(
        self, store: Store, worker: StoreConsumer, queues: Sequence[str] = (QUEUE,)
    ) -> float | None:
        """Promote and deliver messages until there is nothing to do; returns when there is
        again."""
        while True:
            messages = 0
            promotions = [await worker.promote(queue) for queue in queues]
            for queue in queues:
                messages += await self.deliver_messages(store, worker, queue)
            if not messages and not any(promotion.moved for promotion in promotions):
                times = [each.next_in for each in promotions if each.next_in is not None]
                return min(times, default=None)

    async def deliver_messages(
        self, store: Store, worker: StoreConsumer, queue: str = QUEUE
    ) -> int:
        messages = await worker.flow_messages(queue)
        for to in dict.fromkeys(message.queue for message in messages):
            await store.arrive(to, [message.arrival for message in messages if message.queue == to])
        await worker.ack_flow_messages(queue, messages)
        return len(messages)

    async def snapshot(self, store: Store, job_id: JobId, queue: str = QUEUE) -> JobSnapshot:
        """The snapshot of a job that must be there."""
        (snapshot,) = await store.get(queue, [job_id])
        assert snapshot is not None
        return snapshot

    async def states(
        self, store: Store, job_ids: Sequence[JobId], queue: str = QUEUE
    ) -> list[State | None]:
        return [found.state if found else None for found in await store.get(queue, job_ids)]

    @asynccontextmanager
    async def heeded(self, worker: StoreConsumer, queue: str = QUEUE) -> AsyncIterator[None]:
        """On exit, the worker has been notified of the change that was made inside."""
        notified = asyncio.Event()
        handle = await worker.on_control(queue, lambda _: notified.set())
        await asyncio.sleep(0.05)
        notified.clear()
        yield
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def reclaim(
        self, consumer: StoreConsumer, count: int, *, last_chance: bool = True, queue: str = QUEUE
    ) -> list[LeasedDelivery]:
        """Reclaim as a worker does, at intervals, until `count` jobs were taken over."""
        taken: list[LeasedDelivery] = []
        for _ in range(60):
            taken += known(await consumer.reclaim(queue, 100, last_chance=last_chance))
            if len(taken) >= count:
                return taken
            await self.pass_time(reclaim_every(LEASE) * 1.1)
        raise AssertionError(f"{len(taken)} jobs were taken over instead of {count}")

    async def looks_until(self, worker: StoreConsumer, count: int, queue: str = QUEUE) -> int:
        """How often a worker must reclaim until it has taken over `count` jobs."""
        taken = looks = 0
        while taken < count and looks < 60:
            taken += len(known(await worker.reclaim(queue, 100, last_chance=True)))
            looks += 1
            await self.pass_time(reclaim_every(LEASE) * 1.1)
        assert taken == count
        return looks

    async def look_regularly(
        self,
        consumer: StoreConsumer,
        seconds: float,
        *,
        last_chance: bool = True,
        queue: str = QUEUE,
    ) -> list[LeasedDelivery]:
        """Reclaim at intervals for this time; returns what was taken over."""
        taken: list[LeasedDelivery] = []
        every = reclaim_every(LEASE) * 1.1
        for _ in range(round(seconds / every) + 1):
            taken += known(await consumer.reclaim(queue, 100, last_chance=last_chance))
            await self.pass_time(every)
        return taken


def parcel(
    job_id: str | None = None,
    *,
    delay_ms: int | None = None,
    at_ms: int | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
    parents: Sequence[Parcel] = (),
    children: Sequence[Child] = (),
    tick: Tick | None = None,
    task: str = "task",
    payload: bytes = b"\x90",
    runner: Runner = "loop",
) -> Parcel:
    key = ids.new_id() if job_id is None else ids.to_id(job_id)
    envelope = encode_envelope(key, task, payload, runner=runner)
    waits_for = tuple(parent.job_id for parent in parents)
    return Parcel(key, envelope, delay_ms, at_ms, constraints, waits_for, tuple(children), tick)


def known(deliveries: list[LeasedDelivery]) -> list[LeasedDelivery]:
    """As after the executor's first step: id and task are read from the envelope."""
    for delivery in deliveries:
        envelope = decode_envelope(delivery.envelope)
        delivery.job_id, delivery.task = envelope.job_id, envelope.task
    return deliveries


def ids_of(deliveries: Sequence[LeasedDelivery]) -> list[JobId]:
    return [delivery.job_id for delivery in deliveries]


def kept(value: bytes = b"\x01", seconds: float = 60.0) -> Done:
    return Done(done_verdict(value), int(seconds * 1000))


HISTORY = encode_history(History(deliveries=1))
