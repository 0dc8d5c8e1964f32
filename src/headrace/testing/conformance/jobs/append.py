"""Appending jobs."""

from __future__ import annotations

from headrace.core.job.outcome import DONE
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, kept, parcel


class AppendConformance(Ground):
    async def test_a_job_that_was_sent_is_waiting(self, store: Store) -> None:
        (key,) = await self.send(store)
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert snapshot.state is State.WAITING
        assert await store.count(QUEUE) == Counts(waiting=1)

    async def test_sending_nothing_is_allowed(self, store: Store) -> None:
        assert await store.append(QUEUE, []) == {}

    async def test_jobs_come_out_in_the_order_they_were_sent(self, store: Store) -> None:
        sent = await self.send(store, 30)
        sent += await self.send(store, 30)
        assert ids_of(await self.take(self.worker(store), 60)) == sent

    async def test_sending_twice_is_sending_once(self, store: Store) -> None:
        item = parcel()
        assert await store.append(QUEUE, [item]) == {}
        assert await store.append(QUEUE, [item], may_exist=True) == {0: item.job_id}
        worker = self.worker(store)
        await self.take(worker)
        await self.nothing_left(worker)

    async def test_one_id_twice_in_a_batch_is_one_job(self, store: Store) -> None:
        item, other = parcel("given"), parcel("other")
        assert await store.append(QUEUE, [item, other, item], may_exist=True) == {2: item.job_id}
        assert (await store.count(QUEUE)).waiting == 2

    async def test_a_known_id_is_left_alone_wherever_its_job_is(self, store: Store) -> None:
        later, running = parcel("later", delay_ms=60_000), parcel("running")
        await store.append(QUEUE, [later, running], may_exist=True)
        await self.take(self.worker(store))
        assert await store.append(QUEUE, [later, running], may_exist=True) == {
            0: later.job_id,
            1: running.job_id,
        }
        assert await store.count(QUEUE) == Counts(running=1, scheduled=1)

    async def test_an_id_is_known_while_its_result_is_kept(self, store: Store) -> None:
        item, worker = parcel("order-7"), self.worker(store)
        await store.append(QUEUE, [item], may_exist=True)
        await self.settle(worker, await self.take(worker), kept(seconds=50))
        assert await store.append(QUEUE, [item], may_exist=True) == {0: item.job_id}
        await self.pass_time(60)
        assert await store.append(QUEUE, [item], may_exist=True) == {}

    async def test_an_id_may_be_used_again_when_its_job_is_forgotten(self, store: Store) -> None:
        item, worker = parcel("order-8"), self.worker(store)
        await store.append(QUEUE, [item], may_exist=True)
        await self.settle(worker, await self.take(worker), DONE)
        assert await store.append(QUEUE, [item], may_exist=True) == {}

    async def test_a_time_in_the_past_means_now(self, store: Store) -> None:
        now = await store.time_ms()
        await store.append(QUEUE, [parcel(at_ms=now - 1000), parcel(delay_ms=0)])
        assert await store.count(QUEUE) == Counts(waiting=2)

    async def test_queues_are_listed_once_they_were_sent_to(self, store: Store) -> None:
        await self.send(store, queue="b")
        await self.send(store, queue="a")
        assert await store.queues() == ["a", "b"]

    async def test_queues_do_not_mix(self, store: Store) -> None:
        await self.send(store, queue="a")
        (key,) = await self.send(store, queue="b")
        assert ids_of(await self.take(self.worker(store, queues=["b"]))) == [key]
        assert await store.count("a") == Counts(waiting=1)
