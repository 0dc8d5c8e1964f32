"""Flows across queues, and large ones."""

from __future__ import annotations

import asyncio

from headrace.core.job.constraints import Constraints
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Child
from headrace.store.contract import Store
from headrace.store.values import Counts
from headrace.testing.conformance.flows.joins import FlowGround, chain, inputs_of, linked
from headrace.testing.conformance.ground import QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD

FAR = "far-away"


class FarFlowGround(Ground):
    async def send_to_and_fro(self, store: Store) -> tuple[JobId, JobId, JobId]:
        """Three jobs, one after the other, the second in another queue."""
        last = parcel("3", parents=[parcel("2")])
        middle = parcel("2", parents=[parcel("1")], children=[Child(QUEUE, last.job_id)])
        first = parcel("1", children=[Child(FAR, middle.job_id)])
        await store.append(QUEUE, [last])
        await store.append(FAR, [middle])
        await store.append(QUEUE, [first])
        return first.job_id, middle.job_id, last.job_id


class FarFlowsConformance(FarFlowGround):
    async def test_an_end_arrives_in_another_queue(self, store: Store) -> None:
        there = parcel("there", parents=[parcel("here")])
        here = parcel("here", children=[Child(FAR, there.job_id)])
        await store.append(FAR, [there])
        await store.append(QUEUE, [here])
        worker = self.worker(store, queues=[QUEUE, FAR])
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        await self.upkeep(store, worker, [QUEUE, FAR])
        (delivery,) = await self.take(worker)
        assert (delivery.queue, delivery.job_id, inputs_of(delivery)) == (FAR, there.job_id, [7])
        assert await worker.flow_messages(QUEUE) == []

    async def test_a_bad_end_goes_to_and_fro(self, store: Store) -> None:
        _, middle, last = await self.send_to_and_fro(store)
        worker = self.worker(store, queues=[QUEUE, FAR])
        await self.settle(worker, await self.take(worker), DEAD)
        await self.upkeep(store, worker, [QUEUE, FAR])
        assert (await self.snapshot(store, middle, FAR)).reason == "parent_failed"
        assert (await self.snapshot(store, last)).reason == "parent_failed"

    async def test_a_far_job_may_run_anyway(self, store: Store) -> None:
        there = parcel("there", parents=[parcel("here")])
        here = parcel("here", children=[Child(FAR, there.job_id, True)])
        await store.append(FAR, [there])
        await store.append(QUEUE, [here])
        worker = self.worker(store, queues=[QUEUE, FAR])
        await store.cancel(QUEUE, [here.job_id])
        await self.upkeep(store, worker, [QUEUE, FAR])
        assert inputs_of((await self.take(worker))[0]) == [None]

    async def test_letters_that_were_not_delivered_are_given_again(self, store: Store) -> None:
        there = parcel("there", parents=[parcel("here")])
        here = parcel("here", children=[Child(FAR, there.job_id)])
        await store.append(FAR, [there])
        await store.append(QUEUE, [here])
        worker, other = self.worker(store, queues=[QUEUE, FAR]), self.worker(store)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        messages = await worker.flow_messages(QUEUE)
        assert await worker.flow_messages(QUEUE) == messages
        # One relay at a time, unless there are no messages at all.
        assert await other.flow_messages(QUEUE) == []
        await self.deliver_messages(store, worker)
        assert inputs_of((await self.take(worker))[0]) == [7]

    async def test_the_flow_relay_is_woken(self, store: Store) -> None:
        """Where there are messages at all: a store may also deliver at once."""
        there = parcel("there", parents=[parcel("here")])
        here = parcel("here", children=[Child(FAR, there.job_id)])
        await store.append(FAR, [there])
        await store.append(QUEUE, [here])
        notified = asyncio.Event()
        worker = self.worker(store)
        taken = await self.take(worker)
        handle = await worker.on_due(QUEUE, lambda _: notified.set())
        await asyncio.sleep(0.05)
        notified.clear()
        await self.settle(worker, taken, DONE)
        if await worker.flow_messages(QUEUE):
            await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def test_two_queues_have_lives_of_their_own(self, store: Store) -> None:
        """Their jobs have one id, lane and name."""
        constraints = Constraints(lane="a", unique="u")
        for queue in (QUEUE, FAR):
            assert await store.append(queue, [parcel("same", constraints=constraints)]) == {}
            assert await store.count(queue) == Counts(waiting=1)


class LargeFlowsConformance(FlowGround):
    async def test_a_long_chain_fails_to_its_end(self, store: Store) -> None:
        jobs = chain(2000)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await self.upkeep(store, worker)
        assert await store.count(QUEUE) == Counts(dead=2000)

    async def test_a_long_chain_runs_in_order(self, store: Store) -> None:
        jobs = chain(200)
        await self.send_flow(store, jobs)
        ran = await self.run_all(store, self.worker(store), kept())
        assert ran == [job.job_id for job in jobs]

    async def test_a_job_may_have_many_children(self, store: Store) -> None:
        parent = parcel()
        children = [parcel(parents=[parent]) for _ in range(1200)]
        await self.send_flow(store, [linked(parent, *children), *children])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        await self.upkeep(store, worker)
        taken = await self.take(worker, 1200)
        assert sorted(ids_of(taken)) == sorted(child.job_id for child in children)
        assert all(inputs_of(delivery) == [7] for delivery in taken)

    async def test_a_job_may_wait_for_many(self, store: Store) -> None:
        parents = [parcel() for _ in range(1200)]
        child = parcel(parents=parents)
        await self.send_flow(store, [*(linked(each, child) for each in parents), child])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker, 1200), kept(b"\x07"))
        await self.upkeep(store, worker)
        (last,) = await self.take(worker)
        assert (last.job_id, inputs_of(last)) == (child.job_id, [7] * 1200)
