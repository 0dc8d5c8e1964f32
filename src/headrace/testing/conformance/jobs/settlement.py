"""Outcomes: applied once, from the worker that holds the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from headrace.core.job.ids import JobId
from headrace.core.job.outcome import (
    DONE,
    LEFT,
    RELEASED,
    Cancelled,
    Dead,
    Done,
    Outcome,
    Retried,
    UnknownOutcome,
)
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import CANCELLED_VERDICT, Verdict, decode_verdict, encode_verdict
from headrace.store.contract import Settlement, Store
from headrace.store.values import Counts, IdempotencyKey
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, known

DEAD = Dead(
    Reason.REJECTED, HISTORY, encode_verdict(Verdict(State.DEAD, reason="rejected")), 60_000
)
CANCELLED = Cancelled(CANCELLED_VERDICT, 60_000)
RETRIED = Retried(60_000, HISTORY)
OUTCOMES: list[Outcome] = [DONE, kept(), RETRIED, Retried(0, HISTORY), DEAD, RELEASED]


class Parked(msgspec.Struct, frozen=True):
    """An outcome that no store has heard of."""


class DoneTwice(Done, frozen=True):
    """An outcome that looks like one of ours, and may mean something else."""


UNKNOWN: list[Any] = [Parked(), DoneTwice(), LEFT]


class SettlementConformance(Ground):
    async def test_done_without_a_result_leaves_nothing(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        assert await self.settle(worker, await self.take(worker), DONE) == []
        assert await store.get(QUEUE, [key]) == [None]
        assert await store.count(QUEUE) == Counts()

    async def test_a_result_is_kept_for_its_time(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept(b"\x07", seconds=50))
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert snapshot.state is State.DONE
        assert decode_verdict(snapshot.verdict).value == b"\x07"
        await self.pass_time(60)
        assert await store.get(QUEUE, [key]) == [None]

    async def test_retried_schedules_the_job_with_its_history(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        before = await store.time_ms()
        await self.settle(worker, await self.take(worker), RETRIED)
        (snapshot,) = await store.get(QUEUE, [key], bodies=True)
        assert snapshot is not None
        assert snapshot.state is State.SCHEDULED
        assert snapshot.due_ms is not None
        assert snapshot.due_ms >= before + RETRIED.delay_ms
        assert snapshot.history == HISTORY
        assert await store.count(QUEUE) == Counts(scheduled=1)

    async def test_again_at_once_is_a_new_delivery(self, store: Store) -> None:
        await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Retried(0, HISTORY))
        (delivery,) = await self.take(worker)
        assert (delivery.history, delivery.count) == (HISTORY, 1)

    async def test_a_dead_job_is_kept_whole(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        (delivery,) = await self.take(worker)
        await self.settle(worker, [delivery], DEAD)
        (snapshot,) = await store.get(QUEUE, [key], bodies=True)
        assert snapshot is not None
        assert (snapshot.state, snapshot.reason) == (State.DEAD, "rejected")
        assert (snapshot.envelope, snapshot.history) == (delivery.envelope, HISTORY)
        (dead,) = (await store.dead(QUEUE)).jobs
        assert (dead.job_id, dead.reason, dead.envelope) == (key, "rejected", delivery.envelope)
        assert (snapshot.died_ms, snapshot.due_ms) == (dead.died_ms, None)
        assert await store.count(QUEUE) == Counts(dead=1)

    async def test_a_released_job_is_taken_over_at_once_and_nothing_is_counted(
        self, store: Store
    ) -> None:
        (key,) = await self.send(store)
        first, second = self.worker(store), self.worker(store)
        await self.settle(first, await self.take(first), RELEASED)
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert snapshot.state is State.WAITING
        taken = await second.reclaim(QUEUE, 10, last_chance=False)
        taken = taken or await second.fetch(10, 0)
        assert [delivery.count for delivery in taken] == [1]

    async def test_a_released_job_goes_before_the_others(self, store: Store) -> None:
        (first, *_) = await self.send(store, 3)
        worker, other = self.worker(store), self.worker(store)
        await self.settle(worker, await self.take(worker), RELEASED)
        taken = await other.reclaim(QUEUE, 1, last_chance=False) or await other.fetch(1, 0)
        (snapshot,) = await store.get(QUEUE, [first])
        assert len(taken) == 1
        assert snapshot is not None
        assert snapshot.state is State.RUNNING

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)
    async def test_settling_twice_is_settling_once(self, store: Store, outcome: Outcome) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        await self.settle(worker, taken, outcome)
        after = await store.count(QUEUE), await store.get(QUEUE, [key])
        repeated = [Settlement(taken[0], outcome)]
        assert await worker.settle(QUEUE, repeated, repeat=True) == taken
        assert (await store.count(QUEUE), await store.get(QUEUE, [key])) == after

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)
    async def test_settle_after_reclaim_is_stale(self, store: Store, outcome: Outcome) -> None:
        (key,) = await self.send(store)
        late, second = self.worker(store), self.worker(store, "second")
        taken = await self.take(late)
        again = await self.reclaim(second, 1)
        assert await self.settle(late, taken, outcome) == taken
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert (snapshot.state, snapshot.worker) == (State.RUNNING, "second")
        assert await self.settle(second, again, kept(b"\x02")) == []
        (snapshot,) = await store.get(QUEUE, [key])
        assert snapshot is not None
        assert decode_verdict(snapshot.verdict).value == b"\x02"

    async def test_a_worker_that_lost_its_job_to_itself_settles_it_once(self, store: Store) -> None:
        await self.send(store)
        worker = self.worker(store)
        first = await self.take(worker)
        second = await self.reclaim(worker, 1)
        assert await self.settle(worker, first, DONE) == first
        assert await self.settle(worker, second, DONE) == []
        assert await store.count(QUEUE) == Counts()

    @pytest.mark.parametrize("lost_first", [True, False], ids=["lost first", "held first"])
    async def test_of_two_deliveries_of_a_job_the_one_that_is_held_counts(
        self, store: Store, lost_first: bool
    ) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        lost, held = await self.take(worker), await self.reclaim(worker, 1)
        assert await worker.renew([*lost, *held]) == lost
        assert await worker.renew([*held, *lost]) == lost
        found = known(await worker.recover(lost))
        assert [(delivery.job_id, delivery.count) for delivery in found] == [(key, 2)]
        assert await worker.recover(held) == []
        batch = [Settlement(lost[0], kept(b"\x01")), Settlement(held[0], kept(b"\x02"))]
        assert await worker.settle(QUEUE, batch if lost_first else batch[::-1]) == lost
        assert decode_verdict((await self.snapshot(store, key)).verdict).value == b"\x02"
        assert await store.count(QUEUE) == Counts()

    async def test_a_batch_is_settled_but_for_what_was_lost(self, store: Store) -> None:
        await self.send(store, 4)
        late, second = self.worker(store), self.worker(store)
        lost = await self.take(late, 2)
        await self.reclaim(second, 2)
        mine = await self.take(late, 2)
        assert await self.settle(late, [*lost, *mine], kept()) == lost
        snapshots = await store.get(QUEUE, ids_of(mine))
        assert [snapshot and snapshot.state for snapshot in snapshots] == [State.DONE] * 2

    async def test_all_kinds_of_outcome_in_one_batch(self, store: Store) -> None:
        await self.send(store, 6)
        worker = self.worker(store)
        taken = await self.take(worker, 6)
        pairs = zip(taken, OUTCOMES, strict=True)
        batch = [Settlement(delivery, outcome) for delivery, outcome in pairs]
        assert await worker.settle(QUEUE, batch) == []
        assert await store.count(QUEUE) == Counts(waiting=2, scheduled=1, dead=1)

    @pytest.mark.parametrize("unknown", UNKNOWN, ids=lambda o: type(o).__name__)
    async def test_a_batch_with_an_unknown_outcome_is_refused_before_anything_is_written(
        self, store: Store, unknown: Any
    ) -> None:
        await self.send(store, 3)
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        outcomes = (kept(), unknown, RETRIED)
        batch = [Settlement(*each) for each in zip(taken, outcomes, strict=True)]
        with pytest.raises(UnknownOutcome, match=type(unknown).__name__) as refused:
            await worker.settle(QUEUE, batch, idempotency=IdempotencyKey())
        assert refused.value.outcome is unknown
        # All are still in the worker's hands, and what is known can be settled without the other.
        assert await store.count(QUEUE) == Counts(running=3)
        assert await worker.renew(taken) == []
        assert await worker.settle(QUEUE, [batch[0], batch[2]]) == []
        assert await store.count(QUEUE) == Counts(running=1, scheduled=1)

    async def test_an_unknown_outcome_at_the_end_of_a_large_batch_is_refused_with_all_of_it(
        self, store: Store
    ) -> None:
        await self.send(store, 1500)
        worker = self.worker(store)
        *others, last = await self.take(worker, 1500)
        batch = [*(Settlement(each, DONE) for each in others), Settlement(last, UNKNOWN[0])]
        with pytest.raises(UnknownOutcome):
            await worker.settle(QUEUE, batch)
        assert await store.count(QUEUE) == Counts(running=1500)
        assert await self.settle(worker, [*others, last], DONE) == []

    async def test_a_large_batch_is_settled(self, store: Store) -> None:
        await self.send(store, 1500)
        worker = self.worker(store)
        taken = await self.take(worker, 1500)
        assert await self.settle(worker, taken, kept()) == []
        assert await store.count(QUEUE) == Counts()

    async def test_who_waits_hears_that_jobs_have_ended(self, store: Store) -> None:
        notified = asyncio.Event()

        def listener(job_ids: Sequence[JobId] | None) -> None:
            if job_ids is None or key in job_ids:
                notified.set()

        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        handle = await store.on_finished(QUEUE, listener)
        await asyncio.sleep(0.05)
        notified.clear()
        await self.settle(worker, taken, kept())
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()
