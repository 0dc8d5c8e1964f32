"""How many jobs of a flow are in each state."""

from __future__ import annotations

import msgspec

from headrace.core.flow.counts import FlowCounts
from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Parcel
from headrace.store.contract import Store
from headrace.testing.conformance.flows.across_queues import FAR
from headrace.testing.conformance.flows.joins import FlowGround, chain, linked
from headrace.testing.conformance.ground import QUEUE, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD


def counted(flow: JobId, jobs: list[Parcel]) -> list[Parcel]:
    """The jobs, as parts of a flow."""
    name = ids.to_text(flow)
    return [
        msgspec.structs.replace(
            job, constraints=msgspec.structs.replace(job.constraints, flow=name)
        )
        for job in jobs
    ]


class FlowCountsConformance(FlowGround):
    async def counts(self, store: Store, flow: JobId, queue: str = QUEUE) -> FlowCounts:
        return (await store.flow_part(queue, flow)).counts

    async def test_jobs_of_a_flow_are_counted_in_every_state(self, store: Store) -> None:
        flow = ids.new_id()
        parents = [parcel() for _ in range(5)]
        child = parcel(parents=parents)
        later = parcel(delay_ms=3_600_000)
        jobs = [*(linked(each, child) for each in parents), child, later]
        await self.send(store, 3)
        await self.send_flow(store, counted(flow, jobs))
        assert await self.counts(store, flow) == FlowCounts(waiting=5, blocked=1, scheduled=1)
        worker = self.worker(store)
        taken = [each for each in await self.take(worker, 8) if each.constraints]
        assert await self.counts(store, flow) == FlowCounts(running=5, blocked=1, scheduled=1)
        await self.settle(worker, taken[:2], kept())
        await self.settle(worker, taken[2:3], DONE)
        await self.settle(worker, taken[3:4], DEAD)
        assert await self.counts(store, flow) == FlowCounts(running=1, scheduled=1, done=3, dead=2)
        await self.end(store, worker, taken[4:], CANCELLED)
        await store.cancel(QUEUE, [later.job_id])
        assert await self.counts(store, flow) == FlowCounts(done=3, dead=2, cancelled=2)
        assert await self.counts(store, ids.new_id()) == FlowCounts()
        assert await self.counts(store, flow, FAR) == FlowCounts()
        await store.purge(QUEUE, [taken[3].job_id, child.job_id])
        assert await self.counts(store, flow) == FlowCounts(done=3, dead=2, cancelled=2)

    async def test_members_are_those_that_can_be_cancelled_or_replayed(self, store: Store) -> None:
        flow, jobs = ids.new_id(), chain(3)
        await self.send_flow(store, counted(flow, jobs))
        part = await store.flow_part(QUEUE, flow, members=True)
        assert sorted(part.live) == sorted(job.job_id for job in jobs)
        assert part.failed == ()
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept())
        await self.settle(worker, await self.take(worker), DEAD)
        part = await store.flow_part(QUEUE, flow, members=True)
        assert (part.live, part.failed) == ((), (jobs[1].job_id,))
        await store.replay(QUEUE, [jobs[1].job_id])
        part = await store.flow_part(QUEUE, flow, members=True)
        assert sorted(part.live) == sorted(job.job_id for job in jobs[1:])
        assert part.counts == FlowCounts(waiting=1, blocked=1, done=1)
        await self.run_all(store, worker, kept())
        assert await self.counts(store, flow) == FlowCounts(done=3)

    async def test_a_repeated_end_is_counted_once(self, store: Store) -> None:
        flow = ids.new_id()
        await self.send_flow(store, counted(flow, [parcel()]))
        worker = self.worker(store)
        taken = await self.take(worker)
        await self.settle(worker, taken, kept())
        await self.settle(worker, taken, kept())
        assert await self.counts(store, flow) == FlowCounts(done=1)

    async def test_a_flow_that_is_sent_again_is_counted_anew(self, store: Store) -> None:
        name = ids.to_id("nightly")
        one, two = (
            msgspec.structs.replace(each, begins_flow=True)
            for each in counted(name, [parcel("1"), parcel("2")])
        )
        worker = self.worker(store)
        for _ in range(2):
            await store.append(QUEUE, [one])
            assert await self.counts(store, name) == FlowCounts(waiting=1)
            await self.run_all(store, worker, DONE)
            # The rest of the same flow.
            (later,) = counted(name, [parcel("3")])
            await store.append(QUEUE, [later])
            assert await self.counts(store, name) == FlowCounts(waiting=1, done=1)
            # Not begun anew: one of its jobs has not ended.
            await store.append(QUEUE, [two])
            assert await self.counts(store, name) == FlowCounts(waiting=2, done=1)
            await store.append(QUEUE, [two], may_exist=True)
            await self.run_all(store, worker, DONE)
            assert await self.counts(store, name) == FlowCounts(done=3)

    async def test_a_retried_and_a_released_job_stay_counted(self, store: Store) -> None:
        flow = ids.new_id()
        jobs = counted(flow, [parcel(constraints=Constraints(lane="a")) for _ in range(2)])
        await store.append(QUEUE, jobs)
        assert await self.counts(store, flow) == FlowCounts(waiting=1, blocked=1)
        worker, other = self.worker(store), self.worker(store)
        assert ids_of(await self.take(worker)) == [jobs[0].job_id]
        await worker.close()
        assert await self.counts(store, flow) == FlowCounts(waiting=1, blocked=1)
        await self.run_all(store, other, DONE)
        assert await self.counts(store, flow) == FlowCounts(done=2)

    async def test_a_large_flow_is_counted_in_one_look(self, store: Store) -> None:
        flow = ids.new_id()
        parents = [parcel() for _ in range(3000)]
        child = parcel(parents=parents)
        jobs = counted(flow, [*(linked(each, child) for each in parents), child])
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker, 500), kept())
        assert await self.counts(store, flow) == FlowCounts(done=500, waiting=2500, blocked=1)
        part = await store.flow_part(QUEUE, flow, members=True)
        for at in range(0, len(part.live), 1000):
            await store.cancel(QUEUE, part.live[at : at + 1000])
        assert await self.counts(store, flow) == FlowCounts(done=500, cancelled=2501)
