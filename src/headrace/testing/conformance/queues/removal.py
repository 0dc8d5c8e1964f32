"""Removing queues."""

from __future__ import annotations

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.outcome import DONE
from headrace.store.contract import Settlement, Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import QUEUE, Ground, known, parcel


class RemovalConformance(Ground):
    async def test_an_empty_queue_is_removed_with_its_traces(self, store: Store) -> None:
        worker = self.worker(store)
        constraints = Constraints(
            priority=3, lane="a", unique="u", limits=(Limit("slow", 5, 60_000),)
        )
        await store.append(QUEUE, [parcel(constraints=constraints)])
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
