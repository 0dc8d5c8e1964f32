"""Leases, abandoned jobs, scheduled jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Retried
from headrace.store.contract import Store, reclaim_every
from headrace.store.topics import Group
from headrace.store.values import Counts
from headrace.testing.conformance.ground import (
    HISTORY,
    LEASE,
    QUEUE,
    Ground,
    ids_of,
    known,
    parcel,
)
from headrace.testing.conformance.topics.topic_ground import BILLING, TopicGround, of_each_kind

_AHEAD = 5000
_TOGETHER = 1000
_LONG_LEASE = 600.0
# There are six in a lease. For one lease after a first look nothing may be taken.
_MOST_LOOKS = 9


class UpkeepConformance(Ground):
    async def test_a_job_whose_lease_ran_out_goes_to_another_worker(self, store: Store) -> None:
        (key,) = await self.send(store)
        await self.take(self.worker(store))
        (delivery,) = await self.reclaim(self.worker(store), 1)
        assert (delivery.job_id, delivery.count) == (key, 2)

    async def test_a_job_under_lease_is_left_alone(self, store: Store) -> None:
        other = self.worker(store)
        await self.look_regularly(other, LEASE)
        await self.send(store)
        await self.take(self.worker(store))
        assert await self.look_regularly(other, LEASE / 3) == []

    async def test_a_renewed_lease_is_kept(self, store: Store) -> None:
        (key,) = await self.send(store)
        holder, other = self.worker(store), self.worker(store)
        held = await self.take(holder)
        for _ in range(8):
            assert await holder.renew(held) == []
            assert await self.look_regularly(other, LEASE / 4) == []
        assert await self.settle(holder, held, DONE) == []
        assert await store.get(QUEUE, [key]) == [None]

    async def test_the_lease_of_the_holder_decides(self, store: Store) -> None:
        await self.send(store)
        holder = store.consumer("patient", [QUEUE], LEASE * 20)
        held = await self.take(holder)
        assert await self.look_regularly(self.worker(store), LEASE * 2) == []
        assert await self.settle(holder, held, DONE) == []
        await holder.close()

    async def test_a_lost_lease_cannot_be_renewed(self, store: Store) -> None:
        await self.send(store)
        late, second = self.worker(store), self.worker(store)
        lost = await self.take(late)
        (again,) = await self.reclaim(second, 1)
        assert await late.renew(lost) == lost
        assert await second.renew([again]) == []

    async def test_a_job_on_its_last_chance_is_taken_alone(self, store: Store) -> None:
        await self.send(store, 3)
        await self.take(self.worker(store), 3)
        await self.reclaim(self.worker(store), 3)
        third = self.worker(store)
        assert len(await self.reclaim(third, 1)) == 1
        assert await self.look_regularly(third, LEASE * 1.5, last_chance=False) == []

    async def test_after_a_pause_of_the_store_holders_get_time_to_renew(self, store: Store) -> None:
        holder, other = self.worker(store), self.worker(store)
        await self.look_regularly(other, LEASE)
        await self.send(store)
        held = await self.take(holder)
        # No worker could look or renew for longer than a lease: the store or the machine slept.
        await self.pass_time(LEASE * 2)
        assert await other.reclaim(QUEUE, 10, last_chance=True) == []
        assert await holder.renew(held) == []
        await self.pass_time(reclaim_every(LEASE) * 1.1)
        assert await other.reclaim(QUEUE, 10, last_chance=True) == []
        assert await self.settle(holder, held, DONE) == []

    async def test_what_one_look_left_behind_is_taken_by_the_next(self, store: Store) -> None:
        first, second = self.worker(store), self.worker(store)
        await self.send(store, 5)
        await self.take(self.worker(store), 5)
        taken: list[LeasedDelivery] = []
        while not taken:
            taken = await first.reclaim(QUEUE, 2, last_chance=True)
            await self.pass_time(0 if taken else reclaim_every(LEASE) * 1.1)
        assert len(taken) == 2
        assert len(await second.reclaim(QUEUE, 100, last_chance=True)) == 3

    async def test_a_scheduled_job_is_never_early(self, store: Store) -> None:
        await store.append(QUEUE, [parcel(delay_ms=400)])
        worker = self.worker(store)
        promotion = await worker.promote(QUEUE)
        assert promotion.moved == 0
        assert promotion.next_in is not None
        assert 0 < promotion.next_in <= 0.402
        await self.nothing_left(worker)
        await self.pass_time(0.41)
        assert (await worker.promote(QUEUE)).moved == 1
        await self.take(worker)

    async def test_due_jobs_come_in_the_order_of_their_times(self, store: Store) -> None:
        now = await store.time_ms()
        late, early = parcel(at_ms=now + 200), parcel(at_ms=now + 100)
        await store.append(QUEUE, [late, early])
        await self.pass_time(0.25)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker, 2)) == [early.job_id, late.job_id]

    async def test_a_retried_job_keeps_its_history_through_the_schedule(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Retried(50, HISTORY))
        await self.pass_time(0.1)
        await worker.promote(QUEUE)
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, delivery.history, delivery.count) == (key, HISTORY, 1)

    async def test_many_due_jobs_are_promoted_in_steps(self, store: Store) -> None:
        now = await store.time_ms()
        for _ in range(2):
            await store.append(QUEUE, [parcel(at_ms=now + 500) for _ in range(1000)])
        await self.pass_time(0.51)
        worker = self.worker(store)
        moved = 0
        while (promotion := await worker.promote(QUEUE)).moved:
            moved += promotion.moved
        assert moved == 2000
        assert await store.count(QUEUE) == Counts(waiting=2000)

    async def test_with_nothing_scheduled_there_is_nothing_to_wait_for(self, store: Store) -> None:
        assert (await self.worker(store).promote(QUEUE)).next_in is None

    async def test_an_earlier_due_time_is_signalled(self, store: Store) -> None:
        notified = asyncio.Event()

        def listener(_: Sequence[JobId] | None) -> None:
            notified.set()

        handle = await self.worker(store).on_due(QUEUE, listener)
        await asyncio.sleep(0.05)
        notified.clear()
        await store.append(QUEUE, [parcel(delay_ms=60_000)])
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def test_a_worker_that_leaves_hands_back_what_it_holds(self, store: Store) -> None:
        (key,) = await self.send(store)
        leaving, staying = self.worker(store), self.worker(store)
        await self.take(leaving)
        await leaving.close()
        taken = await staying.reclaim(QUEUE, 10, last_chance=False) or await staying.fetch(10, 0)
        assert [(d.job_id, d.count) for d in known(taken)] == [(key, 1)]


class CrowdedConformance(TopicGround):
    """Abandoned jobs behind thousands whose leases are renewed."""

    async def hold_many(self, store: Store, queue: str) -> None:
        """Let one worker hold thousands of jobs, with a long lease."""
        keeper = store.consumer("keeper", [queue], _LONG_LEASE)
        self._workers.append(keeper)
        held = 0
        while held < _AHEAD:
            held += len(await keeper.fetch(_AHEAD - held, 10))

    async def test_abandoned_jobs_are_found_behind_thousands_that_are_well(
        self, store: Store
    ) -> None:
        for _ in range(_AHEAD // _TOGETHER):
            await self.send(store, _TOGETHER)
        await self.hold_many(store, QUEUE)
        await self.send(store, 3)
        await self.take(self.worker(store, "dies"), 3)
        assert await self.looks_until(self.worker(store, "other"), 3, QUEUE) <= _MOST_LOOKS

    @of_each_kind
    async def test_abandoned_events_are_found_behind_thousands_that_are_well(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        for _ in range(_AHEAD // _TOGETHER):
            await self.publish(store, _TOGETHER)
        await self.hold_many(store, BILLING)
        await self.publish(store, 3)
        await self.take(self.member(store, name="dies"), 3)
        looks = await self.looks_until(self.member(store, name="other"), 3, BILLING)
        assert looks <= _MOST_LOOKS
