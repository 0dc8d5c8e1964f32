"""A queue with a bound runs no more jobs at a time than that, on all workers together."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.store.contract import Store, StoreConsumer
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
from headrace.testing.conformance.jobs.settlement import DEAD


class QueueConcurrencyConformance(Ground):
    def bounded(self, store: Store, most: int, *queues: str) -> StoreConsumer:
        """A worker that lets `most` jobs of `QUEUE` run at a time, and reads these queues too."""
        worker = store.consumer(
            f"worker-{ids.new_id().hex()}", [QUEUE, *queues], LEASE, concurrency={QUEUE: most}
        )
        self._workers.append(worker)
        return worker

    async def test_no_more_jobs_of_a_queue_run_than_it_allows(self, store: Store) -> None:
        sent = await self.send(store, 5)
        await self.send(store, 3, "free")
        one, other = self.bounded(store, 3, "free"), self.bounded(store, 3)
        first = known(await other.fetch(2, 0))
        taken = known(await one.fetch(100, 0))
        assert ids_of(first) == sent[:2]
        assert ids_of([each for each in taken if each.queue == QUEUE]) == sent[2:3]
        assert len(taken) == 4
        await self.nothing_left(other)
        await self.settle(other, first[:1], DONE)
        assert ids_of(await self.take(other)) == sent[3:4]
        await self.nothing_left(one)

    @pytest.mark.parametrize(
        "outcome",
        [DONE, kept(), DEAD, Retried(0, HISTORY), Retried(3_600_000, HISTORY), RELEASED],
        ids=["done", "kept", "dead", "again", "later", "released"],
    )
    async def test_a_job_that_no_longer_runs_makes_room(
        self, store: Store, outcome: Outcome
    ) -> None:
        await self.send(store, 2)
        worker = self.bounded(store, 1)
        await self.settle(worker, await self.take(worker), outcome)
        await self.take(worker)
        await self.nothing_left(worker)

    async def test_a_worker_that_waits_gets_the_next_job_when_one_ends(self, store: Store) -> None:
        sent = await self.send(store, 2)
        one, other = self.bounded(store, 1), self.bounded(store, 1)
        listening = await other.on_control(QUEUE, lambda _: None)
        (first,) = await self.take(one)
        waiting = asyncio.create_task(self.take(other))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await self.settle(one, [first], DONE)
        assert ids_of(await asyncio.wait_for(waiting, 10)) == sent[1:]
        await listening.close()

    async def test_a_worker_that_waits_gets_what_is_sent(self, store: Store) -> None:
        worker = self.bounded(store, 1)
        for runner in ("loop", "thread", "loop"):
            waiting = asyncio.create_task(self.take(worker))
            await asyncio.sleep(0.02)
            item = parcel(runner=runner)
            await store.append(QUEUE, [item])
            (taken,) = await asyncio.wait_for(waiting, 10)
            assert taken.job_id == item.job_id
            await self.settle(worker, [taken], DONE)

    async def test_the_highest_priority_goes_first(self, store: Store) -> None:
        sent = [parcel(constraints=Constraints(priority=each)) for each in (0, 5, 9)]
        await store.append(QUEUE, sent)
        worker = self.bounded(store, 2)
        taken = await self.take(worker, 2)
        assert {each.job_id for each in taken} == {sent[1].job_id, sent[2].job_id}
        await self.nothing_left(worker)

    async def test_a_job_of_a_worker_that_is_gone_keeps_its_place(self, store: Store) -> None:
        sent = await self.send(store, 3)
        lost, heir = self.bounded(store, 2), self.bounded(store, 2)
        await self.take(lost, 2)
        await self.nothing_left(heir)
        taken = await self.reclaim(heir, 2)
        assert sorted(ids_of(taken)) == sorted(sent[:2])
        await self.nothing_left(heir)
        await self.settle(heir, taken, DONE)
        assert ids_of(await self.take(heir)) == sent[2:]

    async def test_a_worker_that_leaves_makes_room(self, store: Store) -> None:
        sent = await self.send(store, 3)
        leaving, worker = self.bounded(store, 2), self.bounded(store, 2)
        await self.take(leaving, 2)
        await leaving.close()
        taken = await self.reclaim_or_fetch(worker, 2)
        assert taken == sent[:2]
        assert known(await worker.reclaim(QUEUE, 10, last_chance=True)) == []
        await self.nothing_left(worker)

    async def reclaim_or_fetch(self, worker: StoreConsumer, count: int) -> list[bytes]:
        taken: list[bytes] = []
        for _ in range(50):
            taken += ids_of(known(await worker.reclaim(QUEUE, 10, last_chance=True)))
            taken += ids_of(known(await worker.fetch(10, 0.05)))
            if len(taken) >= count:
                break
        return taken

    async def test_the_number_may_change_while_jobs_run(self, store: Store) -> None:
        """As when a new version of a program says another: each worker keeps to its own."""
        await self.send(store, 6)
        old, new = self.bounded(store, 3), self.bounded(store, 1)
        taken = await self.take(old, 3)
        await self.settle(old, taken[:2], DONE)
        await self.nothing_left(new)
        await self.settle(old, taken[2:], DONE)
        await self.take(new)
        await self.nothing_left(new)
        assert len(await self.take(old, 2)) == 2
