"""Queues that let only a few jobs of each key wait."""

from __future__ import annotations

from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Parcel
from headrace.store.contract import Store
from headrace.store.queue_values import KEY_FULL, NO_ROOM, QueueBound
from headrace.store.values import Counts
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, parcel

TWO = QueueBound(most_per_key=2)


def of_key(key: str, *, width: int = 1, delay_ms: int | None = None) -> Parcel:
    return parcel(delay_ms=delay_ms, constraints=Constraints(lane=f"key:{key}", width=width))


class KeyBoundsConformance(Ground):
    async def test_a_key_with_enough_jobs_that_wait_refuses_more(self, store: Store) -> None:
        items = [of_key("a") for _ in range(5)]
        others = [of_key("b"), of_key("b"), parcel()]
        refused = await store.append(QUEUE, [*items, *others], bound=TWO)
        assert refused == {3: KEY_FULL, 4: KEY_FULL}, "one may go, two wait"
        assert await store.count(QUEUE) == Counts(waiting=3, blocked=3)
        assert await store.get(QUEUE, [items[3].job_id]) == [None]
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        assert await store.append(QUEUE, items[3:], bound=TWO) == {0: KEY_FULL, 1: KEY_FULL}
        await self.settle(worker, taken, DONE)
        assert await store.append(QUEUE, items[3:], bound=TWO) == {1: KEY_FULL}
        ran = await self.run_all(store, worker)
        assert [job_id for job_id in ran if job_id != others[1].job_id] == [
            item.job_id for item in items[1:4]
        ]

    async def test_a_job_that_is_there_is_not_refused_and_a_later_one_is_not_counted(
        self, store: Store
    ) -> None:
        items = [of_key("a") for _ in range(3)]
        assert await store.append(QUEUE, items, bound=TWO) == {}
        again = await store.append(QUEUE, items, bound=TWO, may_exist=True)
        assert again == {at: item.job_id for at, item in enumerate(items)}
        assert await store.append(QUEUE, [of_key("a", delay_ms=20)], bound=TWO) == {}
        await self.pass_time(0.03)
        worker = self.worker(store)
        assert (await worker.promote(QUEUE)).moved == 1
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=3)
        assert len(await self.run_all(store, worker)) == 4

    async def test_a_wide_key_is_filled_before_jobs_wait(self, store: Store) -> None:
        items = [of_key("a", width=3) for _ in range(6)]
        assert await store.append(QUEUE, items, bound=TWO) == {5: KEY_FULL}
        assert await store.count(QUEUE) == Counts(waiting=3, blocked=2)
        worker = self.worker(store)
        assert await self.run_all(store, worker) == [item.job_id for item in items[:5]]

    async def test_a_queue_may_have_both_bounds(self, store: Store) -> None:
        both = QueueBound(5, drops_oldest=False, most_per_key=1)
        items = [of_key("a"), of_key("a"), of_key("a"), parcel(), parcel(), parcel(), parcel()]
        refused = await store.append(QUEUE, items, bound=both)
        assert refused == {2: KEY_FULL, 6: NO_ROOM}
        dropping = QueueBound(5, drops_oldest=True, most_per_key=1)
        assert await store.append(QUEUE, [of_key("a")], bound=dropping) == {0: KEY_FULL}
        assert await store.count(QUEUE) == Counts(waiting=4, blocked=1), "nothing went for it"
        worker = self.worker(store)
        taken = await self.take(worker, 4)
        assert items[0].job_id in ids_of(taken)
        await self.settle(worker, taken, DONE)
        assert await self.run_all(store, worker) == [items[1].job_id]
