"""Batches that gather: jobs of one key wait for each other, and come together."""

from __future__ import annotations

import pytest

from headrace.core.job.capacity import Capacity, Runner
from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.gates.batch_ground import BatchGround, gathering, ids, some
from headrace.testing.conformance.ground import QUEUE, ids_of, parcel


class BatchesConformance(BatchGround):
    @pytest.mark.parametrize("runner", ["loop", "thread"])
    async def test_jobs_of_one_key_come_together_when_there_are_enough(
        self, store: Store, runner: Runner
    ) -> None:
        first, second = some(5, "a", runner=runner), some(2, "b", runner=runner)
        worker = await self.heeding(store)
        for one in (*first[:2], *second):
            await store.append(QUEUE, [one])
        await self.nothing_left(worker)
        assert await store.count(QUEUE) == Counts(blocked=4)
        await store.append(QUEUE, first[2:])
        assert await store.count(QUEUE) == Counts(waiting=3, blocked=4)
        batch = await self.fetch(worker)
        assert ids_of(batch) == ids(first[:3])
        assert len({each.batch for each in batch}) == 1
        assert batch[0].batch
        await self.nothing_left(worker)
        assert await self.settle(worker, batch, DONE) == []
        assert await store.count(QUEUE) == Counts(blocked=4)

    async def test_a_batch_counts_as_one_job_of_a_fetch(self, store: Store) -> None:
        sent = [some(3, key) for key in "abc"]
        await store.append(QUEUE, [job for jobs in sent for job in jobs])
        worker = await self.heeding(store)
        taken = await self.fetch(worker, 2)
        assert ids_of(taken) == ids([*sent[0], *sent[1]])
        assert [each.batch == taken[0].batch for each in taken] == [True] * 3 + [False] * 3
        assert await worker.fetch(5, 0, Capacity(0, 5, 5)) == []
        assert ids_of(await self.fetch(worker, 5, Capacity(1, 0, 0))) == ids(sent[2])

    async def test_other_jobs_come_beside_batches(self, store: Store) -> None:
        plain = await self.send(store, 3)
        batch = some(3)
        await store.append(QUEUE, batch)
        worker = await self.heeding(store)
        assert sorted(ids_of(await self.fetch(worker, 10))) == sorted([*plain, *ids(batch)])
        await self.nothing_left(worker)
        await store.append(QUEUE, more := some(3))
        plain = await self.send(store, 1)
        taken = [*await self.fetch(worker, 1), *await self.fetch(worker, 1)]
        assert sorted(ids_of(taken)) == sorted([*plain, *ids(more)])

    async def test_a_batch_has_the_highest_priority_of_its_jobs(self, store: Store) -> None:
        middle = parcel(constraints=Constraints(priority=5))
        low = parcel(constraints=gathering(most=2))
        high = parcel(constraints=gathering(most=2, priority=9))
        await store.append(QUEUE, [parcel(), middle, low, high])
        worker = await self.heeding(store)
        assert sorted(ids_of(await self.fetch(worker))) == sorted([low.job_id, high.job_id])
        assert ids_of(await self.fetch(worker)) == [middle.job_id]

    async def test_a_batch_goes_when_its_first_job_has_waited(self, store: Store) -> None:
        worker = await self.heeding(store)
        await store.append(QUEUE, first := some(1, wait=200))
        await self.pass_time(0.05)
        await store.append(QUEUE, second := some(1, wait=200))
        assert await self.gone_by_time(store, worker, 0.0, 0.151) == 2
        assert ids_of(await self.fetch(worker)) == ids([*first, *second])
        assert (await worker.promote(QUEUE)).next_in is None

    async def test_a_batch_goes_when_none_came_for_its_grace(self, store: Store) -> None:
        worker = await self.heeding(store)
        constraints = gathering(most=100, wait=60_000, grace=300)
        sent = [parcel(constraints=constraints) for _ in range(3)]
        for one in sent:
            await store.append(QUEUE, [one])
            await self.pass_time(0.05)
        moved = 0
        while not moved:
            promotion = await worker.promote(QUEUE)
            moved = promotion.moved
            assert promotion.next_in is None or promotion.next_in <= 0.3
            await self.pass_time(promotion.next_in or 0.0)
        assert moved == 3
        assert ids_of(await self.fetch(worker)) == ids(sent)

    async def test_grace_does_not_outlast_the_longest_wait(self, store: Store) -> None:
        worker = await self.heeding(store)
        constraints = gathering(most=100, wait=100, grace=90)
        moved = 0
        for _ in range(20):
            await store.append(QUEUE, [parcel(constraints=constraints)])
            await self.pass_time(0.03)
            moved += (await worker.promote(QUEUE)).moved
            if moved:
                break
        assert 1 < moved < 20

    async def test_jobs_gather_when_they_are_due(self, store: Store) -> None:
        worker = await self.heeding(store)
        later = parcel(delay_ms=50, constraints=gathering(most=2))
        await store.append(QUEUE, [later])
        assert await store.count(QUEUE) == Counts(scheduled=1)
        await self.pass_time(0.06)
        await worker.promote(QUEUE)
        assert await store.count(QUEUE) == Counts(blocked=1)
        now = parcel(constraints=gathering(most=2))
        await store.append(QUEUE, [now])
        assert ids_of(await self.fetch(worker)) == [later.job_id, now.job_id]
