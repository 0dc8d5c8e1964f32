"""Cancelling running jobs: their worker is asked, and the request is forgotten when they end."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, RELEASED, Held, Outcome, Retried, task_gate
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.ground import (
    HISTORY,
    LEASE,
    QUEUE,
    Ground,
    ids_of,
    kept,
    known,
    parcel,
)
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD

ENDS: list[Outcome] = [kept(), DEAD, DONE, CANCELLED, Retried(60_000, HISTORY)]
NOT_ENDS: list[Outcome] = [
    Retried(0, HISTORY),
    Retried(60_000, HISTORY),
    RELEASED,
    Held(task_gate("task"), HISTORY),
]


class RunningCancellationConformance(Ground):
    async def test_the_worker_of_a_running_job_is_asked(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        async with self.heeded(worker):
            assert await store.cancel(QUEUE, [key]) == [State.RUNNING]
        assert (await store.control(QUEUE)).cancelling == (key,)
        assert (await self.snapshot(store, key)).state is State.RUNNING
        assert await self.settle(worker, taken, CANCELLED) == []
        assert (await store.control(QUEUE)).cancelling == ()
        assert (await self.snapshot(store, key)).state is State.CANCELLED
        assert await store.count(QUEUE) == Counts()

    @pytest.mark.parametrize("outcome", [kept(), DEAD, DONE], ids=["kept", "dead", "done"])
    async def test_a_job_that_ends_by_itself_first_has_ended(
        self, store: Store, outcome: Outcome
    ) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.cancel(QUEUE, [key])
        assert await self.settle(worker, taken, outcome) == []
        expected = {kept(): State.DONE, DEAD: State.DEAD, DONE: None}[outcome]
        assert await self.states(store, [key]) == [expected]
        assert (await store.control(QUEUE)).cancelling == ()

    async def test_running_jobs_can_be_left_alone(self, store: Store) -> None:
        running, waiting = await self.send(store, 2)
        worker = self.worker(store)
        taken = await self.take(worker)
        answers = await store.cancel(QUEUE, [running, waiting, b"=nobody"], running=False)
        assert answers == [State.RUNNING, State.CANCELLED, None]
        assert (await store.control(QUEUE)).cancelling == ()
        assert await self.settle(worker, taken, Retried(0, HISTORY)) == []
        assert ids_of(await self.take(worker)) == [running]

    async def test_what_nobody_cancelled_is_handed_back(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker, other = self.worker(store), self.worker(store)
        assert await self.settle(worker, await self.take(worker), CANCELLED) == []
        assert await self.states(store, [key]) == [State.WAITING]
        recorded = [event.fact.kind for event in await store.events(QUEUE)]
        assert recorded == ["sent", "released"]
        again = await other.reclaim(QUEUE, 9, last_chance=False) or await other.fetch(9, 0)
        assert [(delivery.job_id, delivery.count) for delivery in known(again)] == [(key, 1)]

    async def test_a_new_job_is_not_cancelled_for_an_old_one_of_its_id(self, store: Store) -> None:
        old, new = parcel("x"), parcel("x")
        await store.append(QUEUE, [old])
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.cancel(QUEUE, [old.job_id])
        await self.settle(worker, taken, DONE)
        assert await store.append(QUEUE, [new], may_exist=True) == {}
        # Its worker does not know yet that the request is over.
        await self.settle(worker, await self.take(worker), CANCELLED)
        again = await worker.reclaim(QUEUE, 9, last_chance=False) or await worker.fetch(9, 0)
        assert await self.settle(worker, known(again), kept()) == []
        assert await self.states(store, [new.job_id]) == [State.DONE]

    @pytest.mark.parametrize("outcome", ENDS, ids=["kept", "dead", "done", "cancelled", "retried"])
    async def test_workers_are_told_that_a_cancelled_job_has_ended(
        self, store: Store, outcome: Outcome
    ) -> None:
        (key,) = await self.send(store)
        worker, other = self.worker(store), self.worker(store)
        taken = await self.take(worker)
        await store.cancel(QUEUE, [key])
        async with self.heeded(other):
            await self.settle(worker, taken, outcome)
        assert (await store.control(QUEUE)).cancelling == ()

    async def test_workers_are_told_that_a_dead_workers_job_was_cancelled(
        self, store: Store
    ) -> None:
        (key,) = await self.send(store)
        other = self.worker(store)
        await self.take(self.worker(store))
        await store.cancel(QUEUE, [key])
        async with self.heeded(other):
            while await self.states(store, [key]) == [State.RUNNING]:
                assert await self.look_regularly(other, LEASE / 6) == []

    @pytest.mark.parametrize("outcome", NOT_ENDS, ids=["now", "later", "released", "held"])
    async def test_a_cancelled_job_does_not_run_again(self, store: Store, outcome: Outcome) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.pause(QUEUE, "task")
        await store.cancel(QUEUE, [key])
        assert await self.settle(worker, taken, outcome) == []
        assert await self.states(store, [key]) == [State.CANCELLED]
        assert (await store.control(QUEUE)).cancelling == ()
        assert await store.count(QUEUE) == Counts()
        assert await self.look_regularly(self.worker(store), LEASE / 6) == []

    @pytest.mark.parametrize(
        "constraints", [Constraints(), Constraints(priority=3)], ids=["plain", "priority"]
    )
    async def test_a_cancelled_job_ends_even_if_its_worker_dies(
        self, store: Store, constraints: Constraints
    ) -> None:
        item = parcel(constraints=constraints)
        await store.append(QUEUE, [item])
        dying, other = self.worker(store), self.worker(store)
        lost = await self.take(dying)
        assert await store.cancel(QUEUE, [item.job_id]) == [State.RUNNING]
        while await self.states(store, [item.job_id]) == [State.RUNNING]:
            assert await self.look_regularly(other, LEASE / 6) == []
        assert await self.states(store, [item.job_id]) == [State.CANCELLED]
        assert (await store.control(QUEUE)).cancelling == ()
        assert await self.settle(dying, lost, kept()) == lost

    async def test_a_cancelled_job_ends_even_if_its_worker_leaves(self, store: Store) -> None:
        (key,) = await self.send(store)
        leaving, other = self.worker(store), self.worker(store)
        await self.take(leaving)
        await store.cancel(QUEUE, [key])
        await leaving.close()
        assert await self.look_regularly(other, LEASE / 6) == []
        await self.nothing_left(other)
        assert await self.states(store, [key]) == [State.CANCELLED]
