"""Paused queues and tasks."""

from __future__ import annotations

import asyncio

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.outcome import DONE, RELEASED, Held, task_gate
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.values import Control, Counts
from headrace.testing.conformance.ground import (
    HISTORY,
    LEASE,
    QUEUE,
    Ground,
    ids_of,
    known,
    parcel,
)

GATE = task_gate("task")
HELD = Held(GATE, HISTORY)


class PauseConformance(Ground):
    async def test_what_is_paused_is_known(self, store: Store) -> None:
        assert await store.control(QUEUE) == Control()
        for _ in range(2):
            await store.pause(QUEUE)
            await store.pause(QUEUE, "one")
            await store.pause(QUEUE, "other")
        assert await store.control(QUEUE) == Control(True, frozenset(["one", "other"]))
        assert await store.control("elsewhere") == Control()
        for _ in range(2):
            await store.resume(QUEUE)
            await store.resume(QUEUE, "other")
        assert await store.control(QUEUE) == Control(False, frozenset(["one"]))

    async def test_a_paused_queue_starts_nothing(self, store: Store) -> None:
        worker = self.worker(store)
        await self.nothing_left(worker)
        async with self.heeded(worker):
            await store.pause(QUEUE)
        await self.send(store, 3)
        await store.append(QUEUE, [parcel(constraints=Constraints(priority=9))])
        assert await worker.fetch(10, 0.05) == []
        assert await store.count(QUEUE) == Counts(waiting=4)
        async with self.heeded(worker):
            await store.resume(QUEUE)
        assert len(await self.take(worker, 4)) == 4

    async def test_a_worker_that_comes_later_finds_the_queue_paused(self, store: Store) -> None:
        await store.pause(QUEUE)
        await self.send(store)
        await self.nothing_left(self.worker(store))

    async def test_a_pause_takes_effect_within_about_a_second_unheard(self, store: Store) -> None:
        worker = self.worker(store)
        await self.nothing_left(worker)
        await store.pause(QUEUE)
        await asyncio.sleep(1.1)
        await self.send(store)
        await self.nothing_left(worker)

    async def test_a_fetch_that_waits_obeys_a_pause_and_its_end(self, store: Store) -> None:
        worker = self.worker(store)
        fetch = asyncio.create_task(worker.fetch(1, 0.5))
        async with self.heeded(worker):
            await store.pause(QUEUE)
        # The worker knows of the pause, but its read may still be open at the server.
        assert await fetch == []
        await self.send(store)
        fetch = asyncio.create_task(worker.fetch(1, 30))
        async with self.heeded(worker):
            await store.resume(QUEUE)
        came = await asyncio.wait_for(fetch, 10) or await self.take(worker)
        assert len(came) == 1

    async def test_other_queues_go_on(self, store: Store) -> None:
        await store.pause("still")
        for queue in ("still", "lively"):
            await self.send(store, 3, queue)
        worker = self.worker(store, queues=["still", "lively"])
        taken = await self.take(worker, 3)
        assert {delivery.queue for delivery in taken} == {"lively"}
        await self.nothing_left(worker)

    async def test_running_jobs_of_a_paused_queue_end(self, store: Store) -> None:
        await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        async with self.heeded(worker):
            await store.pause(QUEUE)
        assert await worker.renew(taken) == []
        assert await self.settle(worker, taken, DONE) == []

    async def test_a_paused_queue_gives_nobody_what_another_left(self, store: Store) -> None:
        released, abandoned = await self.send(store, 2)
        leaving, other = self.worker(store), self.worker(store)
        taken = await self.take(leaving, 2)
        await store.pause(QUEUE)
        await self.settle(leaving, taken[:1], RELEASED)
        assert await self.look_regularly(other, LEASE * 3) == []
        await self.nothing_left(other)
        async with self.heeded(other):
            await store.resume(QUEUE)
        ran = await self.run_all(store, other)
        while len(ran) < 2:
            again = await self.reclaim(other, 1)
            await self.settle(other, again, DONE)
            ran += ids_of(again)
        assert sorted(ran) == sorted([released, abandoned])

    # One task

    async def test_jobs_of_a_paused_task_wait_until_it_goes_on(self, store: Store) -> None:
        sent = await self.send(store, 3)
        await store.pause(QUEUE, "task")
        worker = self.worker(store)
        for delivery in await self.take(worker, 3):
            assert await self.settle(worker, [delivery], HELD) == []
        snapshot = await self.snapshot(store, sent[0])
        assert (snapshot.state, snapshot.reason) == (State.BLOCKED, GATE)
        assert await store.count(QUEUE) == Counts(blocked=3)
        promotion = await worker.promote(QUEUE)
        assert (promotion.moved, promotion.next_in) == (0, None)
        await store.resume(QUEUE, "task")
        await worker.promote(QUEUE)
        again = await self.take(worker, 3)
        assert ids_of(again) == sent
        assert [(delivery.history, delivery.count) for delivery in again] == [(HISTORY, 1)] * 3

    async def test_resuming_calls_those_who_promote(self, store: Store) -> None:
        await self.send(store)
        await store.pause(QUEUE, "task")
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), HELD)
        notified = asyncio.Event()
        handle = await worker.on_due(QUEUE, lambda _: notified.set())
        await asyncio.sleep(0.05)
        notified.clear()
        await store.resume(QUEUE, "task")
        # Unless they were resumed already.
        if (await store.count(QUEUE)).blocked:
            await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def test_a_job_held_for_a_task_that_goes_on_already_goes_on(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), HELD)
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker)) == [key]

    async def test_another_pause_loses_nobody(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await store.pause(QUEUE, "task")
        await self.settle(worker, await self.take(worker), HELD)
        await store.resume(QUEUE, "task")
        await store.pause(QUEUE, "task")
        await worker.promote(QUEUE)
        await store.resume(QUEUE, "task")
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker)) == [key]

    async def test_tasks_are_resumed_one_by_one(self, store: Store) -> None:
        sent = {name: parcel(task=name) for name in ("one", "other")}
        await store.append(QUEUE, list(sent.values()))
        worker = self.worker(store)
        for name in sent:
            await store.pause(QUEUE, name)
        for delivery in await self.take(worker, 2):
            await self.settle(worker, [delivery], Held(task_gate(delivery.task), HISTORY))
        await store.resume(QUEUE, "other")
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker)) == [sent["other"].job_id]
        await self.nothing_left(worker)

    async def test_a_held_job_keeps_its_lane_and_gives_back_its_turn(self, store: Store) -> None:
        slow = (Limit("slow", 1, 60_000),)
        first = parcel(constraints=Constraints(lane="a", limits=slow))
        second, other = (
            parcel(constraints=Constraints(lane="a")),
            parcel(constraints=Constraints(limits=slow)),
        )
        await store.append(QUEUE, [first, second, other])
        await store.pause(QUEUE, "task")
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), HELD)
        await worker.promote(QUEUE)
        assert (await self.snapshot(store, second.job_id)).reason == "lane"
        taken = await self.take(worker)
        assert ids_of(taken) == [other.job_id]
        assert await worker.begin(QUEUE, taken) == {}
        await store.resume(QUEUE, "task")
        await worker.promote(QUEUE)
        assert (await self.snapshot(store, first.job_id)).reason == "slow"

    async def test_a_held_job_can_be_cancelled(self, store: Store) -> None:
        first, second = [parcel(constraints=Constraints(lane="a")) for _ in range(2)]
        await store.append(QUEUE, [first, second])
        await store.pause(QUEUE, "task")
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), HELD)
        assert await store.cancel(QUEUE, [first.job_id]) == [State.CANCELLED]
        await store.resume(QUEUE, "task")
        await worker.promote(QUEUE)
        assert ids_of(known(await worker.fetch(9, 0))) == [second.job_id]
