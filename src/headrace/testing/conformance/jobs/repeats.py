"""Changes that are repeated because their answer was lost."""

from __future__ import annotations

from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints, Limit
from headrace.core.job.outcome import DONE
from headrace.store.contract import Settlement, Store
from headrace.store.topics import Published
from headrace.store.values import Counts, IdempotencyKey
from headrace.testing.conformance.ground import QUEUE, known, parcel
from headrace.testing.conformance.topics.topic_ground import LOG, TopicGround, event


class RepeatsConformance(TopicGround):
    async def test_jobs_that_are_done_are_not_added_again_by_a_repeat(self, store: Store) -> None:
        worker = self.worker(store)
        for constraints in (NO_CONSTRAINTS, Constraints(lane="a")):
            item, once = parcel(constraints=constraints), IdempotencyKey()
            assert await store.append(QUEUE, [item], idempotency=once) == {}
            await self.settle(worker, await self.take(worker), DONE)
            # The store no longer knows this id, but it knows the request.
            assert await store.append(QUEUE, [item], may_exist=True, idempotency=once) == {}
        assert await store.count(QUEUE) == Counts()

    async def test_a_repeat_is_answered_as_the_first_try_was(self, store: Store) -> None:
        first, second = (parcel(constraints=Constraints(unique="name")) for _ in range(2))
        await store.append(QUEUE, [first])
        once = IdempotencyKey()
        assert await store.append(QUEUE, [second], idempotency=once) == {0: first.job_id}
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        again = await store.append(QUEUE, [second], may_exist=True, idempotency=once)
        assert again == {0: first.job_id}
        assert await store.count(QUEUE) == Counts()

    async def test_an_event_that_was_trimmed_is_not_published_again_by_a_repeat(
        self, store: Store
    ) -> None:
        item, once = event(), IdempotencyKey()
        assert await store.publish(LOG, [item], idempotency=once) == Published(1)
        await self.trim_to(store, 0)
        again = await store.publish(LOG, [item], may_exist=True, idempotency=once)
        assert again == Published(1)
        assert await self.in_log(store) == []

    async def test_a_repeated_settlement_opens_a_lane_once(self, store: Store) -> None:
        await store.append(QUEUE, [parcel(constraints=Constraints(lane="a")) for _ in range(3)])
        worker, once = self.worker(store), IdempotencyKey()
        settlements = [Settlement(each, DONE) for each in await self.take(worker)]
        assert await worker.settle(QUEUE, settlements, idempotency=once) == []
        await self.take(worker)
        again = await worker.settle(QUEUE, settlements, repeat=True, idempotency=once)
        assert again == []
        assert await store.count(QUEUE) == Counts(running=1, blocked=1)

    async def test_a_start_that_is_asked_for_again_counts_once(self, store: Store) -> None:
        constraints = Constraints(limits=(Limit("few", 2, 3_600_000),))
        await store.append(QUEUE, [parcel(constraints=constraints) for _ in range(2)])
        worker, once = self.worker(store), IdempotencyKey()
        first = await self.take(worker)
        for _ in range(3):
            assert await worker.begin(QUEUE, first, idempotency=once) == {}
        second = known(await worker.fetch(1, 0))
        assert await worker.begin(QUEUE, second) == {}
        assert len(second) == 1
