"""Limits: a number of starts in a time, for the whole fleet."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.outcome import DONE, RELEASED, Held, Retried
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, known, parcel
from headrace.testing.conformance.jobs.settlement import DEAD

CALLS = Limit("calls", 2, 300)
LIMITED = Constraints(limits=(CALLS,))


def limited(count: int, *limits: Limit, lane: str = "") -> list[Parcel]:
    return [
        parcel(constraints=Constraints(lane=lane, limits=limits or (CALLS,))) for _ in range(count)
    ]


class LimitsConformance(Ground):
    async def test_jobs_over_a_limit_wait_at_it(self, store: Store) -> None:
        *_, third = sent = limited(3)
        await store.append(QUEUE, sent)
        waiting = await self.snapshot(store, third.job_id)
        assert (waiting.state, waiting.reason) == (State.BLOCKED, "calls")
        assert await store.count(QUEUE) == Counts(waiting=2, blocked=1)

    async def test_they_go_on_when_the_window_has_passed(self, store: Store) -> None:
        sent = limited(5)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        for at in (0, 2):
            assert await self.start(worker, 2) == [item.job_id for item in sent[at : at + 2]]
            promotion = await worker.promote(QUEUE)
            assert promotion.moved == 0
            assert promotion.next_in is not None
            assert 0 < promotion.next_in <= 0.302
            await self.nothing_left(worker)
            await self.pass_time(promotion.next_in + 0.002)
            assert (await worker.promote(QUEUE)).moved > 0
        assert await self.start(worker) == [sent[4].job_id]

    async def test_no_window_has_more_starts_than_allowed(self, store: Store) -> None:
        await store.append(QUEUE, limited(10, Limit("exact", 3, 200)))
        worker = self.worker(store)
        begun: list[int] = []
        while len(begun) < 10:
            next_in = await self.upkeep(store, worker)
            for delivery in known(await worker.fetch(2, 0)):
                begun.append(await store.time_ms())
                assert await worker.begin(QUEUE, [delivery]) == {}
                await self.settle(worker, [delivery], DONE)
                await self.pass_time(0.02)
            await self.pass_time(min(next_in or 0.0, 0.05) + 0.002)
        # `begun` was asked for right before each start, by the store's clock.
        assert all(later - first >= 195 for first, later in zip(begun, begun[3:], strict=False))

    async def test_a_limit_holds_for_all_workers_together(self, store: Store) -> None:
        await store.append(QUEUE, limited(6, Limit("fleet", 3, 60_000)))
        workers = [self.worker(store) for _ in range(3)]
        for worker in workers:
            await self.start(worker)
        for worker in workers:
            await worker.promote(QUEUE)
            await self.nothing_left(worker)

    async def test_a_job_that_has_not_begun_keeps_its_turn(self, store: Store) -> None:
        sent = limited(3)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker, 2)
        await self.pass_time(0.4)
        await worker.promote(QUEUE)
        await self.nothing_left(worker)
        assert await worker.begin(QUEUE, taken) == {}
        await worker.promote(QUEUE)
        # The window counts from the starts, not from the fetch.
        await self.nothing_left(worker)
        await self.pass_time(0.31)
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker)) == [sent[2].job_id]

    @pytest.mark.parametrize("outcome", [DEAD, DONE, kept()], ids=["dead", "done", "kept"])
    async def test_who_ends_without_beginning_gives_its_turn_back(
        self, store: Store, outcome: object
    ) -> None:
        sent = limited(3, Limit("slow", 1, 60_000))
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        assert isinstance(outcome, type(DEAD) | type(DONE))
        for item in sent:
            taken = await self.take(worker)
            assert ids_of(taken) == [item.job_id]
            await self.settle(worker, taken, outcome)
            await worker.promote(QUEUE)

    async def test_a_start_counts_however_the_job_ends(self, store: Store) -> None:
        await store.append(QUEUE, limited(2, Limit("slow", 1, 60_000)))
        worker = self.worker(store)
        taken = await self.take(worker)
        await worker.begin(QUEUE, taken)
        await self.settle(worker, taken, DEAD)
        await worker.promote(QUEUE)
        await self.nothing_left(worker)

    @pytest.mark.parametrize("delay_ms", [0, 30])
    async def test_a_retry_is_a_start_too(self, store: Store, delay_ms: int) -> None:
        first, second, third = sent = limited(3)
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        one, two = await self.take(worker, 2)
        assert await worker.begin(QUEUE, [one, two]) == {}
        await self.settle(worker, [one], Retried(delay_ms, HISTORY))
        await self.settle(worker, [two], DONE)
        await self.pass_time(0.04)
        await worker.promote(QUEUE)
        again = await self.snapshot(store, first.job_id)
        assert (again.state, again.reason) == (State.BLOCKED, "calls")
        await self.pass_time(0.3)
        await worker.promote(QUEUE)
        assert await self.start(worker, 2) == [third.job_id, first.job_id]
        assert second.job_id == two.job_id

    async def test_a_job_that_is_taken_over_needs_a_turn_anew(self, store: Store) -> None:
        slow = Limit("slow", 1, 3_600_000)
        first, second = sent = limited(2, slow)
        await store.append(QUEUE, sent)
        dying, other = self.worker(store), self.worker(store)
        assert await dying.begin(QUEUE, await self.take(dying)) == {}
        (again,) = await self.reclaim(other, 1)
        assert await other.begin(QUEUE, [again]) == {again: "slow"}
        assert await self.settle(other, [again], Held("slow", HISTORY)) == []
        held = await self.snapshot(store, first.job_id)
        assert (held.state, held.reason) == (State.BLOCKED, "slow")
        assert await store.count(QUEUE) == Counts(blocked=2)
        assert second.job_id == sent[1].job_id

    async def test_a_held_job_goes_before_the_others(self, store: Store) -> None:
        first, second = sent = limited(2, Limit("brief", 1, 250))
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker)
        assert await worker.begin(QUEUE, taken) == {}
        await self.settle(worker, taken, RELEASED)
        again = known(await worker.reclaim(QUEUE, 9, last_chance=True) or await worker.fetch(9, 0))
        assert await worker.begin(QUEUE, again) == {again[0]: "brief"}
        await self.settle(worker, again, Held("brief", HISTORY))
        for item in (first, second):
            await self.pass_time(0.26)
            await worker.promote(QUEUE)
            (delivery,) = await self.take(worker)
            assert delivery.job_id == item.job_id
            assert delivery.history == (HISTORY if item is first else b"")
            assert await worker.begin(QUEUE, [delivery]) == {}
            await self.settle(worker, [delivery], DONE)

    async def test_jobs_held_together_keep_their_order(self, store: Store) -> None:
        sent = limited(5, Limit("brief", 3, 250))
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        assert await worker.begin(QUEUE, taken) == {}
        await self.settle(worker, taken, RELEASED)
        again = known(await worker.reclaim(QUEUE, 9, last_chance=True) or await worker.fetch(9, 0))
        assert ids_of(again) == [item.job_id for item in sent[:3]]
        assert await worker.begin(QUEUE, again) == dict.fromkeys(again, "brief")
        assert await self.settle(worker, again, Held("brief", HISTORY)) == []
        assert await store.count(QUEUE) == Counts(blocked=5)
        assert await self.run_all(store, worker) == [item.job_id for item in sent]

    async def test_a_job_released_before_it_began_keeps_its_turn(self, store: Store) -> None:
        first, _ = sent = limited(2, Limit("slow", 1, 60_000))
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), RELEASED)
        again = known(await worker.reclaim(QUEUE, 9, last_chance=True) or await worker.fetch(9, 0))
        assert ids_of(again) == [first.job_id]
        assert await worker.begin(QUEUE, again) == {}

    async def test_jobs_without_limits_may_always_begin(self, store: Store) -> None:
        await self.send(store, 2)
        await store.append(QUEUE, [parcel(constraints=Constraints(priority=1, lane="a"))])
        worker = self.worker(store)
        assert await worker.begin(QUEUE, await self.take(worker, 3)) == {}
        assert await worker.begin(QUEUE, []) == {}

    async def test_limits_of_other_names_do_not_matter(self, store: Store) -> None:
        slow = [Limit(f"slow {name}", 1, 60_000) for name in "abc"]
        sent = [parcel(constraints=Constraints(limits=(limit,))) for limit in (*slow, *slow)] + [
            parcel()
        ]
        await store.append(QUEUE, sent)
        assert len(await self.take(self.worker(store), 4)) == 4
        assert await store.count(QUEUE) == Counts(running=4, blocked=3)

    async def test_a_job_with_several_limits_needs_all_of_them(self, store: Store) -> None:
        wide, narrow = Limit("wide", 3, 60_000), Limit("narrow", 1, 60_000)
        both = limited(2, wide, narrow)
        others = limited(3, wide)
        await store.append(QUEUE, [*both, *others])
        assert (await self.snapshot(store, both[1].job_id)).reason == "narrow"
        # A job blocked at one limit does not count at the other.
        states = await self.states(store, [item.job_id for item in others])
        assert states == [State.WAITING, State.WAITING, State.BLOCKED]
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await worker.promote(QUEUE)
        assert (await self.snapshot(store, both[1].job_id)).state in (State.WAITING, State.BLOCKED)
        assert len(await self.take(worker, 3)) == 3
        await self.nothing_left(worker)

    async def test_a_job_in_its_lane_has_not_used_its_limit(self, store: Store) -> None:
        await store.append(QUEUE, limited(3, lane="one"))
        other = limited(1)[0]
        await store.append(QUEUE, [other])
        assert (await self.snapshot(store, other.job_id)).state is State.WAITING

    async def test_a_job_at_its_limit_keeps_its_lane(self, store: Store) -> None:
        slow = Limit("brief", 1, 200)
        first = limited(1, slow, lane="one")
        await store.append(
            QUEUE, [*limited(1, slow), *first, parcel(constraints=Constraints(lane="one"))]
        )
        worker = self.worker(store)
        await self.start(worker)
        await self.nothing_left(worker)
        ran = await self.run_all(store, worker)
        assert ran[0] == first[0].job_id
        assert len(ran) == 2

    async def test_limited_jobs_are_run_in_the_order_they_came(self, store: Store) -> None:
        sent = limited(12, Limit("brief", 5, 100))
        for start in (0, 4, 8):
            await store.append(QUEUE, sent[start : start + 4])
        assert await self.run_all(store, self.worker(store)) == [item.job_id for item in sent]
        assert await store.count(QUEUE) == Counts()

    async def test_due_jobs_pass_their_limit_then(self, store: Store) -> None:
        constraints = Constraints(limits=(Limit("slow", 1, 60_000),))
        await store.append(QUEUE, [parcel(constraints=constraints, delay_ms=50) for _ in range(2)])
        assert await store.count(QUEUE) == Counts(scheduled=2)
        await self.pass_time(0.06)
        await self.worker(store).promote(QUEUE)
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=1)
