"""Dead jobs of a flow that are replayed, and jobs in other queues that wait for them."""

from __future__ import annotations

from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer
from headrace.store.flow_values import Cause
from headrace.store.values import Arrival, Counts, JobEnding
from headrace.testing.conformance.flows.across_queues import FAR, FarFlowGround
from headrace.testing.conformance.flows.joins import inputs_of
from headrace.testing.conformance.flows.resumption import cause_of
from headrace.testing.conformance.ground import QUEUE, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD


class FarResumptionConformance(FarFlowGround):
    async def fail_to_and_fro(
        self, store: Store
    ) -> tuple[StoreConsumer, tuple[JobId, JobId, JobId]]:
        """Three jobs, one after the other, the second in another queue; the first is dead."""
        jobs = await self.send_to_and_fro(store)
        worker = self.worker(store, queues=[QUEUE, FAR])
        await self.settle(worker, await self.take(worker), DEAD)
        return worker, jobs

    async def test_a_flow_across_queues_goes_on(self, store: Store) -> None:
        worker, (first, middle, last) = await self.fail_to_and_fro(store)
        await self.upkeep(store, worker, [QUEUE, FAR])
        assert await cause_of(store, last) == Cause(QUEUE, first)
        await store.replay(QUEUE, [first])
        await self.upkeep(store, worker, [QUEUE, FAR])
        assert (await self.snapshot(store, middle, FAR)).state is State.BLOCKED
        assert (await self.snapshot(store, last)).state is State.BLOCKED
        for job_id in (first, middle, last):
            (delivery,) = await self.take(worker)
            assert delivery.job_id == job_id
            await self.settle(worker, [delivery], kept(b"\x07"))
            await self.upkeep(store, worker, [QUEUE, FAR])
        assert await store.count(FAR) == Counts()
        assert await store.count(QUEUE) == Counts()

    async def test_those_in_other_queues_hear_of_a_purge(self, store: Store) -> None:
        worker, (first, middle, last) = await self.fail_to_and_fro(store)
        await self.upkeep(store, worker, [QUEUE, FAR])
        assert await store.purge(FAR, [middle]) == [True]
        await self.upkeep(store, worker, [QUEUE, FAR])
        assert await cause_of(store, last) == Cause(FAR, middle)
        assert await store.purge(QUEUE, [first, last]) == [True, True]

    async def test_a_replay_overtakes_the_failure(self, store: Store) -> None:
        worker, (first, middle, last) = await self.fail_to_and_fro(store)
        await store.replay(QUEUE, [first])
        await self.upkeep(store, worker, [QUEUE, FAR])
        for job_id in (first, middle, last):
            (delivery,) = await self.take(worker)
            assert delivery.job_id == job_id
            await self.settle(worker, [delivery], kept(b"\x07"))
            await self.upkeep(store, worker, [QUEUE, FAR])

    async def test_messages_may_come_again_and_in_any_order(self, store: Store) -> None:
        parent = parcel("1")
        child = parcel("2", parents=[parent])
        await store.append(FAR, [child])
        worker = self.worker(store, queues=[FAR])
        cause = b"\x92\xa1q\xc4\x01="

        def arrival(state: State, replays: int, value: bytes = b"") -> Arrival:
            return Arrival(child.job_id, parent.job_id, JobEnding(state, value), False, replays)

        dead, replayed = arrival(State.DEAD, 0, cause), arrival(State.WAITING, 1)
        dead_again = arrival(State.DEAD, 1, cause)
        states = []
        for each in (dead, dead, replayed, replayed, dead_again, dead_again):
            await store.arrive(FAR, [each])
            states.append((await self.snapshot(store, child.job_id, FAR)).state)
        dead_, blocked = State.DEAD, State.BLOCKED
        assert states == [dead_, dead_, blocked, blocked, dead_, dead_]
        await store.arrive(FAR, [arrival(State.WAITING, 2), arrival(State.DONE, 2, b"\x07")])
        for late in (dead, replayed, dead_again, arrival(State.WAITING, 3)):
            await store.arrive(FAR, [late])
        (delivery,) = await self.take(worker)
        assert inputs_of(delivery) == [7]
        await self.settle(worker, [delivery], kept())
        assert await store.count(FAR) == Counts()

    async def test_an_end_overtakes_the_replay(self, store: Store) -> None:
        parent = parcel("1")
        child = parcel("2", parents=[parent])
        await store.append(FAR, [child])
        worker = self.worker(store, queues=[FAR])
        for state, value in ((State.DEAD, b"\x92\xa1q\xc4\x01="), (State.DONE, b"\x07")):
            ending = JobEnding(state, value)
            await store.arrive(FAR, [Arrival(child.job_id, parent.job_id, ending)])
        assert inputs_of((await self.take(worker))[0]) == [7]
