"""Jobs of one lane run a few at a time, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.store.contract import Settlement, Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD

LANE = Constraints(lane="customer-7")
WIDE = Constraints(lane="customer-8", width=2)


def in_lane(count: int, constraints: Constraints = LANE) -> list[Parcel]:
    return [parcel(constraints=constraints) for _ in range(count)]


def keys(parcels: Sequence[Parcel]) -> list[bytes]:
    return [item.job_id for item in parcels]


class LanesConformance(Ground):
    async def test_a_job_waits_for_the_one_before_it_in_its_lane(self, store: Store) -> None:
        first, second = in_lane(2)
        await store.append(QUEUE, [first])
        await store.append(QUEUE, [second])
        assert (await self.snapshot(store, first.job_id)).state is State.WAITING
        behind = await self.snapshot(store, second.job_id)
        assert (behind.state, behind.reason) == (State.BLOCKED, "lane")
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=1)

    async def test_jobs_of_a_lane_run_one_by_one_in_order(self, store: Store) -> None:
        sent = in_lane(10)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        for item in sent:
            (delivery,) = await self.take(worker)
            assert delivery.job_id == item.job_id
            await self.nothing_left(worker)
            await self.settle(worker, [delivery], DONE)
        assert await store.count(QUEUE) == Counts()

    async def test_lanes_do_not_wait_for_each_other_nor_others_for_them(self, store: Store) -> None:
        sent = [parcel(constraints=Constraints(lane=name)) for name in "abcab"] + [parcel()]
        await store.append(QUEUE, sent)
        taken = await self.take(self.worker(store), 4)
        assert ids_of(taken) == keys([*sent[:3], sent[5]])

    async def test_a_wide_lane_has_room_for_several(self, store: Store) -> None:
        sent = in_lane(4, WIDE)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        first, second = await self.take(worker, 2)
        await self.nothing_left(worker)
        await self.settle(worker, [second], DONE)
        (third,) = await self.take(worker)
        assert ids_of([first, second, third]) == keys(sent[:3])
        await self.nothing_left(worker)

    async def test_a_job_enters_if_it_and_all_in_the_lane_allow_one_more(
        self, store: Store
    ) -> None:
        widths = (2, 3, 3, 1, 3)
        sent = [parcel(constraints=Constraints(lane="mixed", width=width)) for width in widths]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        two, three = await self.take(worker, 2)
        assert ids_of([two, three]) == keys(sent[:2])
        await self.nothing_left(worker)
        # Without the narrower one there is room for three.
        await self.settle(worker, [two], DONE)
        other = await self.take(worker)
        await self.nothing_left(worker)
        await self.settle(worker, [three, *other], DONE)
        (narrow,) = await self.take(worker)
        assert narrow.job_id == sent[3].job_id
        await self.nothing_left(worker)
        await self.settle(worker, [narrow], DONE)
        assert ids_of(await self.take(worker)) == [sent[4].job_id]

    async def test_a_wider_job_waits_for_a_narrow_one_that_runs(self, store: Store) -> None:
        narrow, wide = (
            parcel(constraints=Constraints(lane="mixed", width=width)) for width in (1, 5)
        )
        worker = self.worker(store)
        await store.append(QUEUE, [narrow])
        taken = await self.take(worker)
        await store.append(QUEUE, [wide])
        await self.nothing_left(worker)
        await self.settle(worker, taken, DONE)
        assert ids_of(await self.take(worker)) == [wide.job_id]

    async def test_who_leaves_the_line_lets_those_pass_that_it_kept_back(
        self, store: Store
    ) -> None:
        widths = (2, 1, 2, 3, 3)
        sent = [parcel(constraints=Constraints(lane="mixed", width=width)) for width in widths]
        await store.append(QUEUE, sent)
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=4)
        assert await store.cancel(QUEUE, [sent[1].job_id]) == [State.CANCELLED]
        worker = self.worker(store)
        taken = await self.take(worker, 2)
        assert ids_of(taken) == keys([sent[0], sent[2]])
        assert (await self.snapshot(store, sent[3].job_id)).reason == "lane"
        await self.settle(worker, taken, DONE)
        assert ids_of(await self.take(worker, 2)) == keys(sent[3:])

    @pytest.mark.parametrize("outcome", [DONE, kept(), DEAD], ids=["DONE", "kept", "DEAD"])
    async def test_who_ends_lets_the_next_one_in(self, store: Store, outcome: Outcome) -> None:
        _, second = sent = in_lane(2)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), outcome)
        assert ids_of(await self.take(worker)) == [second.job_id]

    @pytest.mark.parametrize("delay_ms", [0, 50])
    async def test_nobody_passes_a_job_that_is_retried(self, store: Store, delay_ms: int) -> None:
        first, second = sent = in_lane(2)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Retried(delay_ms, HISTORY))
        await worker.promote(QUEUE)
        assert (await self.snapshot(store, second.job_id)).state is State.BLOCKED
        await self.pass_time(0.06)
        await worker.promote(QUEUE)
        taken = await self.take(worker)
        assert ids_of(taken) == [first.job_id]
        await self.nothing_left(worker)
        await self.settle(worker, taken, DONE)
        assert ids_of(await self.take(worker)) == [second.job_id]

    async def test_in_a_wide_lane_others_go_on_while_one_is_delayed(self, store: Store) -> None:
        sent = in_lane(4, WIDE)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        first, _ = await self.take(worker, 2)
        await self.settle(worker, [first], Retried(50, HISTORY))
        assert ids_of(await self.take(worker)) == [sent[2].job_id]
        await self.pass_time(0.06)
        await worker.promote(QUEUE)
        # It goes behind all that wait.
        back = await self.snapshot(store, first.job_id)
        assert (back.state, back.reason) == (State.BLOCKED, "lane")

    async def test_a_released_job_stays_in_its_lane(self, store: Store) -> None:
        first, second = sent = in_lane(2)
        await store.append(QUEUE, sent)
        worker, other = self.worker(store), self.worker(store)
        await self.settle(worker, await self.take(worker), RELEASED)
        taken = await other.reclaim(QUEUE, 9, last_chance=False) + await other.fetch(9, 0)
        assert len(taken) == 1
        assert await self.states(store, keys(sent)) == [State.RUNNING, State.BLOCKED]
        assert first.job_id != second.job_id

    async def test_a_job_that_is_taken_over_stays_in_its_lane(self, store: Store) -> None:
        first, second = sent = in_lane(2)
        await store.append(QUEUE, sent)
        dying, other = self.worker(store), self.worker(store)
        lost = await self.take(dying)
        again = await self.reclaim(other, 1)
        assert ids_of(again) == [first.job_id]
        await self.nothing_left(other)
        # The worker that lost it frees nothing.
        assert await self.settle(dying, lost, DONE) == lost
        await self.nothing_left(other)
        await self.settle(other, again, DONE)
        assert ids_of(await self.take(other)) == [second.job_id]

    async def test_ending_twice_lets_one_in(self, store: Store) -> None:
        sent = in_lane(3)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker)
        await self.settle(worker, taken, DONE)
        await worker.settle(QUEUE, [Settlement(taken[0], DONE)], repeat=True)
        assert ids_of(await self.take(worker)) == [sent[1].job_id]
        await self.nothing_left(worker)

    async def test_sending_twice_takes_one_place(self, store: Store) -> None:
        first, second = sent = in_lane(2)
        await store.append(QUEUE, sent)
        assert await store.append(QUEUE, sent, may_exist=True) == {
            0: first.job_id,
            1: second.job_id,
        }
        assert await self.run_all(store, self.worker(store)) == keys(sent)
        assert await store.count(QUEUE) == Counts()

    async def test_a_scheduled_job_comes_to_its_lane_when_it_is_due(self, store: Store) -> None:
        later, now = parcel(delay_ms=100, constraints=LANE), parcel(constraints=LANE)
        await store.append(QUEUE, [later, now])
        worker = self.worker(store)
        taken = await self.take(worker)
        assert ids_of(taken) == [now.job_id]
        await self.pass_time(0.11)
        await worker.promote(QUEUE)
        assert (await self.snapshot(store, later.job_id)).reason == "lane"
        await self.settle(worker, taken, DONE)
        assert ids_of(await self.take(worker)) == [later.job_id]

    async def test_a_replayed_job_goes_to_the_end_of_its_lane(self, store: Store) -> None:
        first, second = in_lane(2)
        await store.append(QUEUE, [first])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await store.append(QUEUE, [second])
        assert await store.replay(QUEUE, [first.job_id]) == [True]
        assert (await self.snapshot(store, first.job_id)).state is State.BLOCKED
        assert await self.run_all(store, worker) == [second.job_id, first.job_id]

    async def test_many_lanes_keep_their_order(self, store: Store) -> None:
        lanes = [f"lane-{number % 100}" for number in range(1000)]
        sent = [parcel(constraints=Constraints(lane=lane)) for lane in lanes]
        await store.append(QUEUE, sent)
        lane_of = dict(zip(keys(sent), lanes, strict=True))
        ran = await self.run_all(store, self.worker(store))
        for lane in set(lanes):
            came = [item.job_id for item in sent if lane_of[item.job_id] == lane]
            assert [key for key in ran if lane_of[key] == lane] == came
        assert await store.count(QUEUE) == Counts()
