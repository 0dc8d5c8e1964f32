"""Jobs that a worker hands back: first in line for any worker that has room, and uncounted."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.job.capacity import RUNNERS, Capacity, Runner
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints, Limit
from headrace.core.job.envelope import decode_envelope, runner_of
from headrace.core.job.outcome import DONE, RELEASED, Dead, Released, Retried
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.store.contract import Settlement, Store, StoreConsumer
from headrace.store.topics import Group
from headrace.store.values import Counts, IdempotencyKey
from headrace.testing.conformance.ground import HISTORY, QUEUE, ids_of, kept, known, parcel
from headrace.testing.conformance.topics.topic_ground import (
    BILLING,
    TopicGround,
    of_each_kind,
)

FEW = Constraints(lane="a", limits=(Limit("few", 3, 60_000),))
CONSTRAINED = [NO_CONSTRAINTS, Constraints(priority=9), Constraints(lane="a"), FEW]
with_constraints = pytest.mark.parametrize(
    "constraints", CONSTRAINED, ids=["plain", "priority", "lane", "limits"]
)
each_runner = pytest.mark.parametrize("runner", RUNNERS)


def only(runner: Runner, count: int = 9) -> Capacity:
    return Capacity(*(count if each == runner else 0 for each in RUNNERS))


class ReleaseConformance(TopicGround):
    @each_runner
    async def test_what_is_handed_back_comes_before_what_waits_behind_it_in_order(
        self, store: Store, runner: Runner
    ) -> None:
        sent = [parcel(runner=runner) for _ in range(6)]
        await store.append(QUEUE, sent)
        giving, taking = self.worker(store), self.worker(store)
        held = await self.take(giving, 3)
        await self.settle(giving, held, RELEASED)
        assert await store.count(QUEUE) == Counts(waiting=6)
        states = await self.states(store, [item.job_id for item in sent])
        assert states == [State.WAITING] * 6
        first = known(await taking.fetch(2, 0, only(runner)))
        rest = [*known(await taking.fetch(9, 0, only(runner)))]
        rest += known(await taking.fetch(9, 0, only(runner)))
        assert ids_of([*first, *rest]) == [item.job_id for item in sent]
        assert {each.count for each in (*first, *rest)} == {1}
        assert await self.settle(taking, [*first, *rest], DONE) == []
        assert await store.count(QUEUE) == Counts()

    async def test_what_is_handed_back_one_after_the_other_comes_in_order(
        self, store: Store
    ) -> None:
        """The last first, and some with nothing waiting behind them."""
        sent = [parcel() for _ in range(5)]
        await store.append(QUEUE, sent)
        giving, taking = self.worker(store), self.worker(store)
        held = await self.take(giving, 5)
        for some in (held[3:], held[1:3], held[:1]):
            await self.settle(giving, some, RELEASED)
        taken = [*await self.take(taking, 2), *await self.take(taking, 3)]
        assert ids_of(taken) == [item.job_id for item in sent]

    async def test_what_is_handed_back_is_as_old_as_it_was(self, store: Store) -> None:
        await self.send(store)
        (before,) = await store.survey([QUEUE])
        await self.pass_time(0.05)
        giving, leaving = self.worker(store), self.worker(store)
        await self.settle(giving, await self.take(giving), RELEASED)
        (released,) = await store.survey([QUEUE])
        await self.take(leaving)
        await leaving.close()
        (left,) = await store.survey([QUEUE])
        assert released.oldest_ms == left.oldest_ms == before.oldest_ms

    @each_runner
    async def test_it_waits_for_a_worker_that_has_room_for_it(
        self, store: Store, runner: Runner
    ) -> None:
        sent = [parcel(runner=runner) for _ in range(2)]
        other = parcel(runner="thread" if runner == "loop" else "loop")
        await store.append(QUEUE, [*sent, other])
        giving, full, free = (self.worker(store) for _ in range(3))
        await self.settle(giving, known(await giving.fetch(1, 0, only(runner))), RELEASED)
        room = Capacity(*(9 * int(each != runner) for each in RUNNERS))
        assert ids_of(known(await full.fetch(9, 0, room))) == [other.job_id]
        assert await full.fetch(9, 0, room) == []
        found = known(await free.fetch(1, 0, only(runner)))
        assert ids_of(found) == [sent[0].job_id]

    @with_constraints
    async def test_a_worker_that_waits_gets_it_at_once(
        self, store: Store, constraints: Constraints
    ) -> None:
        item = parcel(constraints=constraints, runner="thread")
        await store.append(QUEUE, [item])
        giving, taking = self.worker(store), self.worker(store)
        # Once delivered to a worker that was lost: its count is not the first any more.
        await self.take(giving)
        (held,) = await self.reclaim(giving, 1)
        handle = await taking.on_control(QUEUE, lambda _: None)
        waiting = asyncio.create_task(self.next_of(taking))
        await asyncio.sleep(0.1)
        await self.settle(giving, [held], RELEASED)
        count, job_id = await asyncio.wait_for(waiting, 30)
        assert (count, job_id) == (held.count, item.job_id)
        await handle.close()

    async def next_of(self, worker: StoreConsumer) -> tuple[int, bytes]:
        """How often the next job was delivered, and its id, as a worker waits for it."""
        while True:
            for delivery in known(await worker.fetch(1, 60, Capacity(0, 1, 0))):
                return delivery.count, delivery.job_id

    async def test_what_a_leaving_worker_holds_is_taken_at_once(self, store: Store) -> None:
        item = parcel(runner="thread")
        await store.append(QUEUE, [item])
        leaving, taking = self.worker(store), self.worker(store)
        await self.take(leaving)
        handle = await taking.on_control(QUEUE, lambda _: None)
        waiting = asyncio.create_task(self.next_of(taking))
        await asyncio.sleep(0.1)
        await leaving.close()
        assert await asyncio.wait_for(waiting, 30) == (1, item.job_id)
        await handle.close()

    @with_constraints
    async def test_it_keeps_all_that_it_has(self, store: Store, constraints: Constraints) -> None:
        parent = parcel()
        item = parcel(constraints=constraints, parents=[parent], runner="process")
        child = Child(QUEUE, item.job_id)
        behind = parcel(constraints=Constraints(priority=constraints.priority), runner="process")
        await store.append(
            QUEUE, [item, Parcel(parent.job_id, parent.envelope, children=(child,)), behind]
        )
        giving, taking = self.worker(store), self.worker(store)
        first = known(await giving.fetch(1, 0, only("loop")))
        await self.settle(giving, first, kept(b"\x2a"))
        await self.upkeep(store, giving)
        for outcome in (Retried(0, HISTORY), RELEASED):
            (delivery,) = [
                each
                for each in known(await giving.fetch(9, 0, only("process")))
                if each.job_id == item.job_id
            ]
            await self.settle(giving, [delivery], outcome)
        await giving.close()
        (again,) = [
            each
            for each in known(await taking.fetch(9, 0, only("process")))
            if each.job_id == item.job_id
        ]
        assert (again.history, again.constraints) == (HISTORY, delivery.constraints)
        assert (again.inputs, again.count) == (delivery.inputs, 1)
        assert again.inputs

    @with_constraints
    async def test_a_repeat_that_comes_late_hands_back_nothing_else(
        self, store: Store, constraints: Constraints
    ) -> None:
        await store.append(QUEUE, [parcel(constraints=constraints, runner="thread"), parcel()])
        giving, taking, once = self.worker(store), self.worker(store), IdempotencyKey()
        held = known(await giving.fetch(1, 0, only("thread")))
        settled = [Settlement(each, RELEASED) for each in held]
        assert await giving.settle(QUEUE, settled, idempotency=once) == []
        (again,) = known(await taking.fetch(1, 0, only("thread")))
        answer = await giving.settle(QUEUE, settled, repeat=True, idempotency=once)
        assert answer == []
        # Without the key it is refused: someone else has the job.
        assert await giving.settle(QUEUE, settled, repeat=True) == held
        assert await taking.fetch(1, 0, only("thread")) == []
        assert await self.settle(taking, [again], DONE) == []

    # To another runner

    @with_constraints
    @pytest.mark.parametrize(("before", "runner"), [("loop", "thread"), ("thread", "process"),
                                                    ("process", "loop")])  # fmt: skip
    async def test_a_job_moves_to_the_runner_that_is_named(
        self, store: Store, before: Runner, runner: Runner, constraints: Constraints
    ) -> None:
        item = parcel(constraints=constraints, runner=before)
        await store.append(QUEUE, [item])
        worker = self.worker(store)
        moving = known(await worker.fetch(1, 0, only(before)))
        assert await self.settle(worker, moving, Released(runner)) == []
        assert await store.count(QUEUE) == Counts(waiting=1)
        assert (await self.snapshot(store, item.job_id)).state is State.WAITING
        other = self.worker(store)
        assert await other.fetch(1, 0, only(before)) == []
        for outcome in (Retried(0, HISTORY), Dead("rejected", HISTORY)):
            # Nor does it come back to where it was.
            (moved,) = known(await other.fetch(1, 0, only(runner)))
            assert moved.count == 1
            assert decode_envelope(moved.envelope).runner == runner
            assert moved.envelope[2:] == item.envelope[2:]
            assert await self.settle(other, [moved], outcome) == []
        await store.replay(QUEUE, [item.job_id])
        (moved,) = known(await other.fetch(1, 0, only(runner)))
        assert await self.settle(other, [moved], DONE) == []
        assert await store.count(QUEUE) == Counts()

    async def test_moved_jobs_keep_their_order_and_wake_who_waits_for_them(
        self, store: Store
    ) -> None:
        sent = [parcel() for _ in range(5)]
        await store.append(QUEUE, [parcel(runner="thread"), *sent])
        moving, taking = self.worker(store), self.worker(store)
        await self.settle(taking, known(await taking.fetch(1, 0, only("thread"))), DONE)
        held = known(await moving.fetch(5, 0, only("loop")))
        waiting = asyncio.create_task(taking.fetch(5, 60, only("thread")))
        await asyncio.sleep(0.05)
        await self.settle(moving, held[:3], Released("thread"))
        await self.settle(moving, held[3:], Released("thread"))
        taken = known(await asyncio.wait_for(waiting, 30))
        while len(taken) < 5:
            taken += known(await taking.fetch(5, 1.0, only("thread")))
        assert ids_of(taken) == [item.job_id for item in sent]
        assert {runner_of(each.envelope) for each in taken} == {"thread"}

    async def test_a_repeated_move_moves_once(self, store: Store) -> None:
        item = parcel(constraints=FEW)
        await store.append(QUEUE, [item])
        moving, taking, once = self.worker(store), self.worker(store), IdempotencyKey()
        settled = [Settlement(each, Released("thread")) for each in await self.take(moving)]
        assert await moving.settle(QUEUE, settled, idempotency=once) == []
        (moved,) = known(await taking.fetch(1, 0, only("thread")))
        assert await moving.settle(QUEUE, settled, repeat=True, idempotency=once) == []
        assert await store.count(QUEUE) == Counts(running=1)
        assert await self.settle(taking, [moved], DONE) == []
        assert len(await moving.settle(QUEUE, settled, repeat=True)) == 1
        assert await store.count(QUEUE) == Counts()

    async def test_a_cancelled_job_does_not_move(self, store: Store) -> None:
        item = parcel()
        await store.append(QUEUE, [item])
        worker = self.worker(store)
        held = await self.take(worker)
        assert await store.cancel(QUEUE, [item.job_id]) == [State.RUNNING]
        await self.settle(worker, held, Released("thread"))
        assert await self.states(store, [item.job_id]) == [State.CANCELLED]
        assert await store.count(QUEUE) == Counts()

    # Events

    @of_each_kind
    async def test_events_that_are_handed_back_come_first(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        events = await self.publish(store, 5)
        giving, taking = self.member(store), self.member(store)
        held = await self.take(giving, 2)
        await self.settle(giving, held, RELEASED)
        first = await self.take(taking, 2)
        assert ids_of(first) == events[:2]
        assert {each.count for each in first} == {1}
        assert sorted(ids_of(await self.take(taking, 3))) == sorted(events[2:])

    async def test_events_are_not_kept_apart_by_runner(self, store: Store) -> None:
        await self.join(store)
        events = await self.publish(store, 2)
        giving, taking = self.member(store), self.member(store)
        assert await giving.fetch(9, 0, Capacity(0, 9, 9)) == []
        held = known(await giving.fetch(9, 0, Capacity(1, 9, 9)))
        assert ids_of(held) == events[:1]
        await self.settle(giving, held, Released("thread"))
        taken = await self.take(taking, 2)
        assert sorted(ids_of(taken)) == sorted(events)
        assert {each.queue for each in taken} == {BILLING}
