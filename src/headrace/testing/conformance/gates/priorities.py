"""Which job comes first, in one queue and among several."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from headrace.core.job.constraints import MAX_PRIORITY, Constraints, decode_constraints
from headrace.core.job.outcome import DONE, RELEASED, Retried
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import (
    HISTORY,
    QUEUE,
    Ground,
    ids_of,
    known,
    parcel,
)
from headrace.testing.conformance.jobs.settlement import DEAD

HIGH, LOW = Constraints(priority=9), Constraints(priority=2)


class PrioritiesConformance(Ground):
    async def test_higher_priorities_come_first_and_in_their_order(self, store: Store) -> None:
        numbers = [0, 7, 100, 7, 1, 0, 100, 50, 1]
        sent = [parcel(constraints=Constraints(priority=number)) for number in numbers]
        await store.append(QUEUE, sent)
        expected = [
            item.job_id
            for number in sorted(set(numbers), reverse=True)
            for item in sent
            if item.constraints.priority == number
        ]
        worker = self.worker(store)
        assert ids_of([*await self.take(worker, 4), *await self.take(worker, 5)]) == expected
        assert MAX_PRIORITY in numbers

    async def test_a_higher_job_goes_before_those_that_wait_already(self, store: Store) -> None:
        worker = self.worker(store)
        await self.send(store, 3)
        await self.take(worker)
        handle = await worker.on_control(QUEUE, lambda _: None)
        await asyncio.sleep(0.05)
        for _ in range(2):
            high = parcel(constraints=HIGH)
            await store.append(QUEUE, [high])
            # Workers may need a moment to learn of a priority that was never used before.
            await asyncio.sleep(0.05)
            assert ids_of(await self.take(worker)) == [high.job_id]
        await handle.close()

    async def test_a_job_with_a_priority_is_waiting_and_then_running(self, store: Store) -> None:
        high = parcel(constraints=HIGH)
        await store.append(QUEUE, [high])
        assert (await self.snapshot(store, high.job_id)).state is State.WAITING
        assert await store.count(QUEUE) == Counts(waiting=1)
        worker = self.worker(store, "someone")
        taken = await self.take(worker)
        snapshot = await self.snapshot(store, high.job_id)
        assert (snapshot.state, snapshot.worker) == (State.RUNNING, "someone")
        assert await store.count(QUEUE) == Counts(running=1)
        assert await worker.renew(taken) == []
        assert await self.settle(worker, taken, DONE) == []
        assert await store.count(QUEUE) == Counts()

    async def test_a_priority_is_kept_through_delay_and_retry(self, store: Store) -> None:
        later = parcel(delay_ms=50, constraints=HIGH)
        await store.append(QUEUE, [later])
        await self.send(store, 2)
        worker = self.worker(store)
        await self.pass_time(0.06)
        await worker.promote(QUEUE)
        for outcome in (Retried(0, HISTORY), Retried(50, HISTORY), DEAD):
            (first,) = await self.take(worker)
            assert first.job_id == later.job_id
            await self.settle(worker, [first], outcome)
            await self.pass_time(0.06)
            await worker.promote(QUEUE)
        await store.replay(QUEUE, [later.job_id])
        assert ids_of(await self.take(worker)) == [later.job_id]

    async def test_a_released_job_keeps_its_priority(self, store: Store) -> None:
        low, high = parcel(constraints=LOW), parcel(constraints=HIGH)
        await store.append(QUEUE, [low, high])
        leaving, staying = self.worker(store), self.worker(store)
        await self.settle(leaving, await self.take(leaving), RELEASED)
        assert await self.states(store, [low.job_id, high.job_id]) == [State.WAITING, State.WAITING]
        taken = await staying.reclaim(QUEUE, 1, last_chance=False) or await staying.fetch(1, 0)
        assert [(each.job_id, each.count) for each in known(taken)] == [(high.job_id, 1)]

    async def test_jobs_with_priorities_are_taken_over_too(self, store: Store) -> None:
        sent = [parcel(constraints=HIGH), parcel(constraints=LOW), parcel()]
        await store.append(QUEUE, sent)
        lost = await self.take(self.worker(store), 3)
        other = self.worker(store)
        again = await self.reclaim(other, 3)
        assert sorted(ids_of(again)) == sorted(ids_of(lost))
        assert {delivery.count for delivery in again} == {2}
        assert await self.settle(other, again, DONE) == []

    async def test_a_worker_that_leaves_hands_back_what_has_a_priority(self, store: Store) -> None:
        high = parcel(constraints=HIGH)
        await store.append(QUEUE, [high])
        leaving, staying = self.worker(store), self.worker(store)
        await self.take(leaving)
        await leaving.close()
        taken = await staying.reclaim(QUEUE, 9, last_chance=False) or await staying.fetch(9, 0)
        assert [(each.job_id, each.count) for each in known(taken)] == [(high.job_id, 1)]

    async def test_recover_finds_what_has_a_priority(self, store: Store) -> None:
        sent = [parcel(constraints=HIGH), parcel()]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        await worker.fetch(2, 0)
        assert sorted(ids_of(known(await worker.recover([])))) == sorted(i.job_id for i in sent)

    async def test_a_waiting_fetch_wakes_for_any_priority(self, store: Store) -> None:
        worker = self.worker(store)
        await store.append(QUEUE, [parcel(constraints=HIGH)])
        await self.settle(worker, await self.take(worker), DONE)
        for constraints in (HIGH, Constraints(), HIGH):
            waiting = asyncio.create_task(worker.fetch(5, 30))
            await asyncio.sleep(0.05)
            item = parcel(constraints=constraints)
            await store.append(QUEUE, [item])
            assert ids_of(known(await asyncio.wait_for(waiting, 10))) == [item.job_id]

    async def test_one_wait_is_for_all_priorities_however_little_is_asked_for(
        self, store: Store
    ) -> None:
        worker = self.worker(store)
        await store.append(
            QUEUE, [parcel(constraints=Constraints(priority=number)) for number in range(20)]
        )
        await self.settle(worker, await self.take(worker, 20), DONE)
        for number in (0, 19, 7):
            waiting = asyncio.create_task(worker.fetch(1, 60))
            await asyncio.sleep(0.05)
            later = parcel(constraints=Constraints(priority=number))
            await store.append(QUEUE, [later])
            taken = known(await waiting)
            assert ids_of(taken) == [later.job_id]
            await self.settle(worker, taken, DONE)

    async def test_no_more_is_fetched_than_asked_for_of_all_priorities(self, store: Store) -> None:
        await store.append(
            QUEUE,
            [parcel(constraints=constraints) for constraints in (HIGH, LOW, Constraints()) * 2],
        )
        worker = self.worker(store)
        for expected in (1, 2, 3):
            assert len(await worker.fetch(expected, 0.1)) == expected

    # Several queues

    async def fetched(
        self, store: Store, queues: Mapping[str, int], limit: int, times: int, *, strict: bool
    ) -> Counter[str]:
        """How many jobs come from each queue while none is empty."""
        worker = self.worker(store, queues=queues, strict=strict)
        for queue in queues:
            await self.send(store, limit * times, queue)
        came: Counter[str] = Counter()
        for _ in range(times):
            taken = await worker.fetch(limit, 0)
            assert len(taken) <= limit
            came.update(delivery.queue for delivery in taken)
        return came

    async def test_queues_share_by_weight(self, store: Store) -> None:
        came = await self.fetched(store, {"much": 3, "less": 1}, 8, 5, strict=False)
        assert came == {"much": 30, "less": 10}

    async def test_a_light_queue_is_not_starved_when_little_is_asked_for(
        self, store: Store
    ) -> None:
        came = await self.fetched(store, {"much": 9, "less": 1}, 1, 60, strict=False)
        assert came["less"] >= 3
        assert came["much"] >= 40

    async def test_what_one_queue_does_not_need_goes_to_the_others(self, store: Store) -> None:
        worker = self.worker(store, queues={"much": 9, "less": 1, "empty": 90})
        await self.send(store, 2, "much")
        await self.send(store, 20, "less")
        came = Counter(delivery.queue for delivery in await self.take(worker, 10))
        assert came == {"much": 2, "less": 8}

    async def test_strict_queues_come_one_after_the_other(self, store: Store) -> None:
        worker = self.worker(store, queues=["first", "second", "third"], strict=True)
        for queue in ("third", "second", "first"):
            await self.send(store, 3, queue)
        taken = [*await self.take(worker, 4), *await self.take(worker, 5)]
        expected = ["first"] * 3 + ["second"] * 3 + ["third"] * 3
        assert [delivery.queue for delivery in taken] == expected

    async def test_a_strict_or_weighed_fetch_wakes_for_any_queue(self, store: Store) -> None:
        for strict in (True, False):
            worker = self.worker(store, queues={"a": 5, "b": 1, "c": 1}, strict=strict)
            waiting = asyncio.create_task(worker.fetch(10, 30))
            await asyncio.sleep(0.05)
            await self.send(store, queue="c")
            assert len(await asyncio.wait_for(waiting, 10)) == 1

    async def test_priorities_hold_within_each_of_several_queues(self, store: Store) -> None:
        queues = ["a", "b"]
        for queue in queues:
            await store.append(
                queue,
                [parcel(constraints=constraints) for constraints in (Constraints(), LOW, HIGH)],
            )
        worker = self.worker(store, queues=queues)
        taken = await self.take(worker, 6)
        for queue in queues:
            came = [
                decode_constraints(each.constraints).priority
                for each in taken
                if each.queue == queue
            ]
            assert came == [9, 2, 0]
