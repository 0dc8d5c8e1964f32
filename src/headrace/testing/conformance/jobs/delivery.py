"""Taking jobs."""

from __future__ import annotations

import asyncio

from headrace.core.job.outcome import DONE
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, known


class DeliveryConformance(Ground):
    async def test_a_delivery_carries_the_job_as_it_was_sent(self, store: Store) -> None:
        (key,) = await self.send(store)
        (delivery,) = await self.take(self.worker(store))
        assert (delivery.job_id, delivery.queue) == (key, QUEUE)
        assert (delivery.count, delivery.history) == (1, b"")

    async def test_no_more_is_fetched_than_asked_for(self, store: Store) -> None:
        await self.send(store, 10)
        assert len(await self.worker(store).fetch(4, 0)) == 4

    async def test_no_more_is_fetched_than_asked_for_from_many_queues(self, store: Store) -> None:
        queues = ["a", "b", "c"]
        for queue in queues:
            await self.send(store, 5, queue)
        worker = self.worker(store, queues=queues)
        for _ in range(5):
            assert 1 <= len(await worker.fetch(2, 0)) <= 2

    async def test_each_job_goes_to_one_worker(self, store: Store) -> None:
        sent = await self.send(store, 100)
        workers = [self.worker(store) for _ in range(4)]
        taken = await asyncio.gather(*(self.take(worker, 25) for worker in workers))
        assert sorted(job_id for part in taken for job_id in ids_of(part)) == sorted(sent)

    async def test_a_busy_queue_does_not_starve_another(self, store: Store) -> None:
        await self.send(store, 100, "busy")
        (quiet,) = await self.send(store, 1, "quiet")
        worker = self.worker(store, queues=["busy", "quiet"])
        taken = [*await self.take(worker, 2), *await self.take(worker, 2)]
        assert quiet in ids_of(taken)

    async def test_a_running_job_tells_its_worker(self, store: Store) -> None:
        (key,) = await self.send(store)
        await self.take(self.worker(store, "the-worker"))
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert (snapshot.state, snapshot.worker) == (State.RUNNING, "the-worker")
        assert await store.count(QUEUE) == Counts(running=1)

    async def test_a_waiting_fetch_wakes_for_a_new_job(self, store: Store) -> None:
        worker = self.worker(store)
        waiting = asyncio.create_task(worker.fetch(1, 30))
        await asyncio.sleep(0.05)
        (key,) = await self.send(store)
        deliveries = known(await asyncio.wait_for(waiting, 10))
        assert ids_of(deliveries) == [key]
        await self.settle(worker, deliveries, DONE)

    async def test_a_waiting_fetch_wakes_for_a_job_in_any_of_its_queues(self, store: Store) -> None:
        worker = self.worker(store, queues=["a", "b", "c"])
        waiting = asyncio.create_task(worker.fetch(10, 30))
        await asyncio.sleep(0.05)
        await self.send(store, queue="c")
        assert len(await asyncio.wait_for(waiting, 10)) == 1

    async def test_one_wait_is_for_all_queues_however_little_is_asked_for(
        self, store: Store
    ) -> None:
        queues = [f"queue-{number}" for number in range(20)]
        worker = self.worker(store, queues=queues)
        for queue in (queues[19], queues[0], queues[9]):
            waiting = asyncio.create_task(worker.fetch(1, 60))
            await asyncio.sleep(0.05)
            (sent,) = await self.send(store, queue=queue)
            taken = known(await waiting)
            assert ids_of(taken) == [sent]
            await self.settle(worker, taken, DONE)

    async def test_a_waiting_fetch_can_be_interrupted(self, store: Store) -> None:
        worker = self.worker(store)
        waiting = asyncio.create_task(worker.fetch(1, 30))
        while not waiting.done():
            await asyncio.sleep(0.02)
            await worker.interrupt()
        assert await waiting == []

    async def test_recover_finds_what_a_failed_fetch_left(self, store: Store) -> None:
        sent = await self.send(store, 3)
        worker = self.worker(store)
        held = await self.take(worker, 1)
        await worker.fetch(2, 0)
        found = await worker.recover(held)
        assert len(found) == 2
        assert all(delivery.count == 1 for delivery in found)
        assert await worker.recover([*held, *found]) == []
        assert (await store.count(QUEUE)).running == len(sent)

    async def test_one_store_serves_several_event_loops(self, store: Store) -> None:
        (key,) = await self.send(store)

        async def elsewhere() -> bool:
            (snapshot,) = await store.get(QUEUE, [key])
            await store.close()
            return snapshot is not None

        assert await asyncio.to_thread(asyncio.run, elsewhere())
        assert await store.count(QUEUE) == Counts(waiting=1)
