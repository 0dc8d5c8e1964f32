"""Removing queues."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.outcome import DONE, Dead
from headrace.core.job.parcel import Child
from headrace.core.job.state import State
from headrace.store.contract import Settlement, Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, known, parcel

EVERYTHING = Constraints(priority=3, lane="a", unique="u", limits=(Limit("slow", 5, 60_000),))


class RemovalConformance(Ground):
    async def test_an_empty_queue_is_removed_with_its_traces(self, store: Store) -> None:
        worker = self.worker(store)
        await store.append(QUEUE, [parcel(constraints=EVERYTHING)])
        (delivery,) = known(await worker.fetch(1, 0))
        await worker.settle(QUEUE, [Settlement(delivery, DONE)])
        await worker.close()
        assert await store.remove(QUEUE) == 0
        assert QUEUE not in await store.queues()
        assert await store.events(QUEUE) == []
        assert await store.remove(QUEUE) is None

    async def test_a_queue_that_holds_jobs_is_removed_by_force_alone(self, store: Store) -> None:
        await store.append(QUEUE, [parcel(), parcel(delay_ms=60_000)])
        assert await store.remove(QUEUE) == 2
        assert await store.count(QUEUE) == Counts(waiting=1, scheduled=1)
        assert await store.remove(QUEUE, force=True) == 0
        assert await store.count(QUEUE) == Counts()
        assert QUEUE not in await store.queues()

    async def test_a_removed_queue_can_be_used_anew(self, store: Store) -> None:
        constraints = Constraints(lane="a", unique="u")
        first, again = parcel(constraints=constraints), parcel(constraints=constraints)
        await store.append(QUEUE, [first])
        await store.remove(QUEUE, force=True)
        assert await store.append(QUEUE, [again]) == {}
        (delivery,) = await self.worker(store).fetch(2, 0)
        assert delivery.envelope == again.envelope

    async def test_what_is_in_other_queues_stays(self, store: Store) -> None:
        await store.append(QUEUE, [parcel()])
        await store.append(f"{QUEUE}-other", [parcel(constraints=Constraints(unique="u"))])
        await store.remove(QUEUE, force=True)
        assert (await store.count(f"{QUEUE}-other")).waiting == 1
        assert f"{QUEUE}-other" in await store.queues()

    async def test_a_queue_that_is_removed_by_force_leaves_nothing(self, store: Store) -> None:
        worker = self.worker(store)
        await self.send(store)
        await self.settle(worker, await self.take(worker), Dead("failed", HISTORY))
        in_lane = Constraints(lane="a", limits=(Limit("slow", 1, 60_000),))
        child = parcel("child")
        parent = parcel("parent", children=[Child(QUEUE, child.job_id)], delay_ms=60_000)
        await store.append(QUEUE, [parcel(constraints=EVERYTHING), parent])
        await store.append(QUEUE, [parcel("child", parents=[parent])])
        await store.append(QUEUE, [parcel(constraints=in_lane) for _ in range(5)])
        await store.pause(QUEUE, "task")
        await self.take(worker, 1)
        await worker.close()
        assert await store.remove(QUEUE, force=True) == 0
        assert await self.left_behind(store) == []

    @pytest.mark.parametrize("used_anew", [False, True])
    async def test_a_job_that_ran_when_its_queue_was_removed_changes_nothing_more(
        self, store: Store, *, used_anew: bool
    ) -> None:
        worker, in_lane = self.worker(store), Constraints(lane="a")
        await store.append(QUEUE, [parcel(constraints=in_lane)])
        running = await self.take(worker)
        assert await store.remove(QUEUE, force=True) == 0
        if used_anew:
            await self.pass_time(0.001)
            await store.append(QUEUE, [parcel(constraints=in_lane) for _ in range(2)])
            await self.take(worker)
        assert await self.settle(worker, running, kept()) == running
        assert await self.states(store, ids_of(running)) == [None]
        expected = Counts(running=1, blocked=1) if used_anew else Counts()
        assert await store.count(QUEUE) == expected

    async def test_those_that_wait_for_removed_jobs_end_with_them(self, store: Store) -> None:
        far = f"{QUEUE}-far"
        live, dead = parcel("live"), parcel("dead")
        cancelled = parcel(parents=[live])
        failed = parcel(parents=[dead])
        anyway = parcel(parents=[live])
        await store.append(far, [cancelled, failed, anyway])
        children = [Child(far, cancelled.job_id), Child(far, anyway.job_id, runs_anyway=True)]
        await store.append(QUEUE, [parcel("dead", children=[Child(far, failed.job_id)])])
        worker = self.worker(store, queues=[QUEUE, far])
        await self.settle(worker, await self.take(worker), Dead("failed", HISTORY))
        await store.append(QUEUE, [parcel("live", children=children)])
        assert await store.remove(QUEUE, force=True) == 0
        states = [seen and seen.state for seen in await store.get(far, [cancelled.job_id])]
        assert states == [State.CANCELLED]
        assert (await self.snapshot(store, failed.job_id, far)).state is State.DEAD
        assert [each.job_id for each in await self.take(worker)] == [anyway.job_id]
        assert QUEUE not in await store.queues()

    async def test_ends_on_their_way_to_others_arrive_before_a_queue_is_gone(
        self, store: Store
    ) -> None:
        far = f"{QUEUE}-far"
        child = parcel(parents=[parcel("parent")])
        await store.append(far, [child])
        await store.append(QUEUE, [parcel("parent", children=[Child(far, child.job_id)])])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        await worker.close()
        assert await store.remove(QUEUE) == 0
        assert await store.count(far) == Counts(waiting=1)

    async def test_a_long_queue_is_removed_as_a_whole(self, store: Store) -> None:
        for delay_ms in (0, 60_000):
            for _ in range(3):
                await store.append(QUEUE, [parcel(delay_ms=delay_ms) for _ in range(500)])
        assert await store.remove(QUEUE) == 3000
        assert await store.remove(QUEUE, force=True) == 0
        assert await store.count(QUEUE) == Counts()
        assert await self.left_behind(store) == []

    async def test_a_queue_that_nobody_uses_any_more_is_removed(self, store: Store) -> None:
        worker = self.worker(store)
        await self.send(store)
        await self.settle(worker, await self.take(worker), DONE)
        await worker.reclaim(QUEUE, 1, last_chance=False)
        await worker.close()
        assert await store.remove(QUEUE, unused_for=60) == -1
        assert QUEUE in await store.queues()
        await self.pass_time(0.05)
        assert await store.remove(QUEUE, unused_for=0.03) == 0
        assert QUEUE not in await store.queues()
        assert await store.remove(QUEUE, unused_for=0.03) is None

    async def test_a_queue_with_jobs_or_a_pause_does_not_count_as_unused(
        self, store: Store
    ) -> None:
        (job_id,) = await self.send(store)
        await self.pass_time(0.05)
        assert await store.remove(QUEUE, unused_for=0.03) == 1
        await store.cancel(QUEUE, [job_id])
        await store.pause(QUEUE)
        await self.pass_time(0.05)
        assert await store.remove(QUEUE, unused_for=0.03) == -1
        assert (await store.control(QUEUE)).paused
