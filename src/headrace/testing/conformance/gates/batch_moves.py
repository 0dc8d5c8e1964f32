"""Batches that gather: what happens to a batch, and to each of its jobs."""

from __future__ import annotations

import asyncio

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, RELEASED, Held, Released, Retried, task_gate
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.queue_values import NO_ROOM, QueueBound
from headrace.store.values import Counts, Gathered
from headrace.testing.conformance.gates.batch_ground import BatchGround, ids, some
from headrace.testing.conformance.ground import HISTORY, QUEUE, ids_of, known
from headrace.testing.conformance.jobs.settlement import DEAD


class BatchMovesConformance(BatchGround):
    async def test_one_of_many_workers_gets_a_whole_batch(self, store: Store) -> None:
        workers = [await self.heeding(store) for _ in range(4)]
        await store.append(QUEUE, sent := some(40, most=100, wait=50))
        await self.pass_time(0.06)
        await asyncio.gather(*(worker.promote(QUEUE) for worker in workers))
        taken = await asyncio.gather(*(worker.fetch(5, 0.3) for worker in workers))
        assert [ids_of(known(each)) for each in taken if each] == [ids(sent)]

    async def test_a_worker_that_waits_gets_a_batch_that_goes(self, store: Store) -> None:
        worker = await self.heeding(store)
        await self.nothing_left(worker)
        sent = some(3)
        await store.append(QUEUE, sent[:2])
        waiting = asyncio.create_task(worker.fetch(1, 5.0))
        await asyncio.sleep(0.05)
        await store.append(QUEUE, sent[2:])
        taken = known(await asyncio.wait_for(waiting, 10))
        assert ids_of(taken or await self.fetch(worker)) == ids(sent)

    async def test_the_batch_of_a_worker_that_is_gone_is_taken_over_together(
        self, store: Store
    ) -> None:
        gone, heir = await self.heeding(store), await self.heeding(store)
        await store.append(QUEUE, sent := some(20, most=10))
        assert len(await self.fetch(gone, 2)) == 20
        await self.reclaim(heir, 0)
        taken: list[LeasedDelivery] = []
        while not taken:
            await self.pass_time(0.11)
            taken = known(await heir.reclaim(QUEUE, 1, last_chance=True))
        assert ids_of(taken) == ids(sent[:10])
        assert len({each.batch for each in taken}) == 1
        rest = await self.reclaim(heir, 10)
        assert ids_of(rest) == ids(sent[10:])
        assert await self.settle(heir, [*taken, *rest], DONE) == []

    async def test_a_batch_that_is_handed_back_comes_together_again(self, store: Store) -> None:
        worker, other = await self.heeding(store), await self.heeding(store)
        await store.append(QUEUE, sent := some(9))
        first = await self.fetch(worker)
        assert await self.settle(worker, first, RELEASED) == []
        assert ids_of(await self.fetch(other)) == ids(sent[:3])
        rest = await self.fetch(worker, 2)
        assert ids_of(rest) == ids(sent[3:])
        assert await self.settle(worker, rest, RELEASED) == []
        again = await self.fetch(other, 2)
        assert ids_of(again) == ids(sent[3:])
        assert len({each.batch for each in again}) == 2

    async def test_each_job_of_a_batch_ends_by_itself(self, store: Store) -> None:
        worker = await self.heeding(store)
        sent = some(4, most=4)
        await store.append(QUEUE, sent)
        done, dead, retried, at_once = await self.fetch(worker)
        await self.settle(worker, [done], DONE)
        await self.settle(worker, [dead], DEAD)
        await self.settle(worker, [retried], Retried(30, HISTORY))
        await self.settle(worker, [at_once], Retried(0, HISTORY))
        states = [None, State.DEAD, State.SCHEDULED, State.BLOCKED]
        assert await self.states(store, ids(sent)) == states
        await self.pass_time(0.05)
        await worker.promote(QUEUE)
        assert await store.replay(QUEUE, [dead.job_id]) == [True]
        await self.nothing_left(worker)
        await store.append(QUEUE, more := some(1, most=4))
        again = {*ids(sent[1:]), *ids(more)}
        assert set(ids_of(await self.fetch(worker))) == again

    async def test_cancelled_jobs_leave_their_batch(self, store: Store) -> None:
        worker = await self.heeding(store)
        sent = some(4)
        await store.append(QUEUE, sent[:2])
        assert await store.cancel(QUEUE, ids(sent[:1])) == [State.CANCELLED]
        await store.append(QUEUE, sent[2:])
        assert await store.cancel(QUEUE, ids(sent[2:3])) == [State.CANCELLED]
        assert ids_of(await self.fetch(worker)) == [sent[1].job_id, sent[3].job_id]
        await self.nothing_left(worker)
        await store.append(QUEUE, alone := some(1, wait=20))
        assert await store.cancel(QUEUE, ids(alone)) == [State.CANCELLED]
        await self.pass_time(0.03)
        assert (await worker.promote(QUEUE)).moved == 0
        assert (await worker.promote(QUEUE)).next_in is None

    async def test_a_batch_that_was_held_goes_at_once_when_its_task_is_resumed(
        self, store: Store
    ) -> None:
        worker = await self.heeding(store)
        await store.append(QUEUE, sent := some(3))
        await store.pause(QUEUE, "task")
        taken = await self.fetch(worker)
        await self.settle(worker, taken, Held(task_gate("task"), HISTORY))
        assert await store.count(QUEUE) == Counts(blocked=3)
        await store.resume(QUEUE, "task")
        await worker.promote(QUEUE)
        again = await self.fetch(worker)
        assert ids_of(again) == ids(sent)
        assert len({each.batch for each in again}) == 1

    async def test_a_batch_moves_to_another_runner_as_a_whole(self, store: Store) -> None:
        worker = await self.heeding(store)
        await store.append(QUEUE, sent := some(3))
        await self.settle(worker, await self.fetch(worker), Released("thread"))
        assert await worker.fetch(5, 0, Capacity(5, 0, 5)) == []
        assert ids_of(await self.fetch(worker, 1, Capacity(0, 1, 0))) == ids(sent)

    async def test_what_gathers_is_known(self, store: Store) -> None:
        before = await store.time_ms()
        sent = some(3, most=5)
        await store.append(QUEUE, sent[:1])
        await self.pass_time(0.01)
        await store.append(QUEUE, sent[1:])
        (seen,) = await store.get(QUEUE, ids(sent[:1]), bodies=True)
        assert seen is not None
        assert (seen.state, seen.reason) == (State.BLOCKED, "batch:task:a")
        assert isinstance(seen.gathered, Gathered)
        assert seen.gathered.count == 3
        assert before <= seen.gathered.first_ms < seen.gathered.last_ms <= await store.time_ms()
        page = await store.browse(QUEUE, State.BLOCKED, "", 10)
        assert sorted(page.job_ids) == sorted(ids(sent))
        await store.append(QUEUE, more := some(2, most=5))
        page = await store.browse(QUEUE, State.WAITING, "", 10)
        assert page.job_ids == [*ids(sent), *ids(more)]
        assert (await store.browse(QUEUE, State.WAITING, "", 10, runner="thread")).job_ids == []

    async def test_a_bound_counts_what_gathers_and_a_removed_queue_forgets_it(
        self, store: Store
    ) -> None:
        bound = QueueBound(3)
        sent = some(4, most=5)
        assert await store.append(QUEUE, sent, bound=bound) == {3: NO_ROOM}
        assert await store.remove(QUEUE, force=True) == 0
        await store.append(QUEUE, again := some(5, most=5))
        assert ids_of(await self.fetch(await self.heeding(store))) == ids(again)
