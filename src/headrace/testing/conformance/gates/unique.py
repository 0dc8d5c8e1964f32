"""Unique names, and ticks that are fired once."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.core.job.parcel import Parcel, Tick
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD

NAME = Constraints(unique="report 7")
LASTING = Constraints(unique="report 8", unique_for_ms=25_000)
ENDS: list[Outcome] = [DONE, kept(), DEAD, CANCELLED]


def twins(constraints: Constraints = NAME) -> tuple[Parcel, Parcel]:
    return parcel(constraints=constraints), parcel(constraints=constraints)


class UniqueConformance(Ground):
    async def test_a_second_job_of_a_name_is_the_first(self, store: Store) -> None:
        first, second = twins()
        assert await store.append(QUEUE, [first]) == {}
        assert await store.append(QUEUE, [parcel(), second]) == {1: first.job_id}
        assert await store.get(QUEUE, [second.job_id]) == [None]
        assert await store.count(QUEUE) == Counts(waiting=2)

    async def test_two_of_a_name_in_one_batch_are_one(self, store: Store) -> None:
        first, second = twins()
        assert await store.append(QUEUE, [first, second]) == {1: first.job_id}

    async def test_one_of_many_senders_is_first(self, store: Store) -> None:
        sent = [parcel(constraints=NAME) for _ in range(20)]
        answers = await asyncio.gather(*(store.append(QUEUE, [item]) for item in sent))
        first = [item for item, answer in zip(sent, answers, strict=True) if not answer]
        assert len(first) == 1
        assert [answer for answer in answers if answer] == [{0: first[0].job_id}] * 19

    async def test_sending_the_first_again_is_sending_it_once(self, store: Store) -> None:
        first, second = twins()
        await store.append(QUEUE, [first])
        assert await store.append(QUEUE, [first], may_exist=True) == {0: first.job_id}
        assert await store.append(QUEUE, [second], may_exist=True) == {0: first.job_id}

    async def test_a_name_is_taken_wherever_its_job_is(self, store: Store) -> None:
        first, second = parcel(constraints=NAME, delay_ms=50), parcel(constraints=NAME)
        await store.append(QUEUE, [first])
        worker = self.worker(store)
        for outcome in (Retried(0, HISTORY), Retried(50, HISTORY), RELEASED):
            assert await store.append(QUEUE, [second]) == {0: first.job_id}
            await self.pass_time(0.06)
            await worker.promote(QUEUE)
            taken = await self.take(worker)
            assert await store.append(QUEUE, [second]) == {0: first.job_id}
            await self.settle(worker, taken, outcome)
        await self.take(worker)
        (again,) = await self.reclaim(self.worker(store), 1)
        assert again.job_id == first.job_id
        assert await store.append(QUEUE, [second]) == {0: first.job_id}

    @pytest.mark.parametrize("outcome", ENDS, ids=["done", "kept", "dead", "cancelled"])
    async def test_an_end_frees_the_name(self, store: Store, outcome: Outcome) -> None:
        first, second = twins()
        await store.append(QUEUE, [first])
        worker = self.worker(store)
        await self.end(store, worker, await self.take(worker), outcome)
        assert await store.append(QUEUE, [second]) == {}
        assert ids_of(await self.take(worker)) == [second.job_id]

    @pytest.mark.parametrize("outcome", ENDS, ids=["done", "kept", "dead", "cancelled"])
    async def test_a_name_may_last_longer_than_its_job(
        self, store: Store, outcome: Outcome
    ) -> None:
        first, second = twins(LASTING)
        await store.append(QUEUE, [first])
        worker = self.worker(store)
        await self.end(store, worker, await self.take(worker), outcome)
        assert await store.append(QUEUE, [second]) == {0: first.job_id}
        await self.pass_time(26)
        assert await store.append(QUEUE, [second]) == {}

    async def test_who_lost_its_lease_frees_no_name(self, store: Store) -> None:
        first, second = twins()
        await store.append(QUEUE, [first])
        late, other = self.worker(store), self.worker(store)
        lost = await self.take(late)
        await self.reclaim(other, 1)
        await self.settle(late, lost, DONE)
        assert await store.append(QUEUE, [second]) == {0: first.job_id}

    async def test_a_replayed_job_has_its_name_again(self, store: Store) -> None:
        for constraints in (NAME, LASTING):
            first, second = twins(constraints)
            await store.append(QUEUE, [first])
            worker = self.worker(store)
            await self.settle(worker, await self.take(worker), DEAD)
            await store.replay(QUEUE, [first.job_id])
            await self.pass_time(26)
            assert await store.append(QUEUE, [second]) == {0: first.job_id}
            await self.settle(worker, await self.take(worker), DONE)

    async def test_a_replayed_job_leaves_its_name_to_another(self, store: Store) -> None:
        first, second = twins()
        third = parcel(constraints=NAME)
        await store.append(QUEUE, [first])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await store.append(QUEUE, [second])
        await store.replay(QUEUE, [first.job_id])
        taken = {delivery.job_id: delivery for delivery in await self.take(worker, 2)}
        await self.settle(worker, [taken[first.job_id]], DONE)
        assert await store.append(QUEUE, [third]) == {0: second.job_id}
        await self.settle(worker, [taken[second.job_id]], DONE)
        assert await store.append(QUEUE, [third]) == {}

    async def test_a_job_that_takes_anothers_place_brings_no_lane(self, store: Store) -> None:
        constraints = Constraints(unique="both", lane="lane")
        first, second = twins(constraints)
        await store.append(QUEUE, [first, second])
        assert await self.run_all(store, self.worker(store)) == [first.job_id]
        assert await store.count(QUEUE) == Counts()


class TicksConformance(Ground):
    async def test_a_tick_is_fired_once(self, store: Store) -> None:
        item = parcel("nightly-1000", tick=Tick("nightly", 1000))
        assert await store.append(QUEUE, [item]) == {}
        assert await store.append(QUEUE, [item]) == {0: item.job_id}
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        # Its job is long gone, and it is still not fired again.
        assert await store.append(QUEUE, [item]) == {0: item.job_id}
        await self.nothing_left(worker)

    async def test_ticks_go_forward(self, store: Store) -> None:
        def tick(at_ms: int, schedule: str = "hourly") -> Parcel:
            return parcel(f"{schedule}-{at_ms}", tick=Tick(schedule, at_ms))

        assert await store.append(QUEUE, [tick(2000), tick(3000)]) == {}
        late = tick(1000)
        assert await store.append(QUEUE, [late]) == {0: late.job_id}
        assert await store.append(QUEUE, [tick(3001), tick(1000, "other")]) == {}
        assert await store.count(QUEUE) == Counts(waiting=4)

    async def test_many_who_fire_a_tick_make_one_job(self, store: Store) -> None:
        items = [parcel("minutely-60", tick=Tick("minutely", 60)) for _ in range(10)]
        answers = await asyncio.gather(*(store.append(QUEUE, [item]) for item in items))
        assert sorted(answers, key=len) == [{}] + [{0: items[0].job_id}] * 9

    async def test_a_tick_may_be_of_a_unique_job(self, store: Store) -> None:
        first, second = (
            parcel(f"job-{at}", constraints=NAME, tick=Tick("busy", at)) for at in (1000, 2000)
        )
        assert await store.append(QUEUE, [first]) == {}
        assert await store.append(QUEUE, [second]) == {0: first.job_id}
        worker = self.worker(store)
        assert await self.run_all(store, worker) == [first.job_id]
        # The tick counts as fired, although it added no job.
        assert await store.append(QUEUE, [second]) == {0: second.job_id}
        await self.nothing_left(worker)
