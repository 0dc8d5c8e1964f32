"""Jobs whose parent goes dead or is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import Outcome
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.contract import Store
from headrace.store.deaths import Deaths
from headrace.store.flow_values import Cause, encode_cause
from headrace.store.values import Arrival, Counts, JobEnding
from headrace.testing.conformance.flows.joins import FlowGround, chain, inputs_of, linked
from headrace.testing.conformance.ground import QUEUE, kept, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD


class FlowFailuresConformance(FlowGround):
    async def test_after_a_dead_job_all_that_follow_are_dead(self, store: Store) -> None:
        jobs = chain(4)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await self.states(store, [job.job_id for job in jobs]) == [State.DEAD] * 4
        last = await self.snapshot(store, jobs[-1].job_id)
        assert last.reason == "parent_failed"
        verdict = decode_verdict(last.verdict)
        assert (verdict.state, verdict.reason) == (State.DEAD, "parent_failed")
        dead = {job.job_id: job for job in (await store.dead(QUEUE)).jobs}
        assert dead[jobs[2].job_id].envelope == jobs[2].envelope
        assert await store.count(QUEUE) == Counts(dead=4)

    async def test_those_that_die_with_a_job_are_reported_together(self, store: Store) -> None:
        deaths: list[Deaths] = []
        parent, children = parcel(), [parcel(task="child") for _ in range(3)]
        children = [msgspec.structs.replace(each, parents=(parent.job_id,)) for each in children]
        last = parcel(task="last", parents=children[:1])
        children[0] = linked(children[0], last)
        await store.append(QUEUE, [last, *children, linked(parent, *children)])
        worker = self.worker(store, on_deaths=deaths.extend)
        await self.settle(worker, await self.take(worker), DEAD)
        cause = encode_cause(Cause(QUEUE, parent.job_id))
        assert [(each.queue, each.reason, each.task, each.count, each.why) for each in deaths] == [
            (QUEUE, "parent_failed", "child", 3, cause),
            (QUEUE, "parent_failed", "last", 1, cause),
        ]
        assert deaths[0].job_id in [child.job_id for child in children]
        assert deaths[1].job_id == last.job_id

    async def test_what_dies_with_an_arrival_is_reported(self, store: Store) -> None:
        parent = parcel()
        child = parcel(task="child", parents=[parent])
        await store.append(QUEUE, [child])
        cause = encode_cause(Cause("far", parent.job_id))
        arrival = Arrival(child.job_id, parent.job_id, JobEnding(State.DEAD, cause))
        (dead,) = await store.arrive(QUEUE, [arrival])
        assert dead == Deaths(QUEUE, "parent_failed", "child", cause, child.job_id)
        assert await store.arrive(QUEUE, [arrival]) == [], "once"

    async def test_after_a_cancelled_job_all_that_follow_are_cancelled(self, store: Store) -> None:
        jobs = chain(4)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.end(store, worker, await self.take(worker), CANCELLED)
        followers = await self.states(store, [job.job_id for job in jobs[1:]])
        assert followers == [State.CANCELLED] * 3
        assert await store.count(QUEUE) == Counts()

    @pytest.mark.parametrize("outcome", [DEAD, CANCELLED], ids=["dead", "cancelled"])
    async def test_a_job_that_runs_anyway_does(self, store: Store, outcome: Outcome) -> None:
        good, bad = parcel(), parcel()
        child = parcel(parents=[bad, good])
        await store.append(QUEUE, [child, linked(good, child)])
        await store.append(QUEUE, [linked(bad, child, runs_anyway=True)])
        worker = self.worker(store)
        first, second = await self.take(worker, 2)
        await self.end(store, worker, [second], outcome)
        assert (await self.snapshot(store, child.job_id)).state is State.BLOCKED
        await self.settle(worker, [first], kept(b"\x07"))
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (child.job_id, [None, 7])

    async def test_the_first_bad_ending_decides(self, store: Store) -> None:
        parents = [parcel() for _ in range(3)]
        child = parcel(parents=parents)
        await store.append(QUEUE, [child, *(linked(each, child) for each in parents)])
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        outcomes: list[Outcome] = [kept(), CANCELLED, DEAD]
        for delivery, outcome in zip(taken, outcomes, strict=True):
            await self.end(store, worker, [delivery], outcome)
        assert (await self.snapshot(store, child.job_id)).state is State.CANCELLED
        await self.nothing_left(worker)

    async def test_what_fails_with_its_parent_gives_back_its_name(self, store: Store) -> None:
        parent, constraints = parcel(), Constraints(unique="the one")
        child = parcel(parents=[parent], constraints=constraints)
        await store.append(QUEUE, [child, linked(parent, child)])
        other = parcel(constraints=constraints)
        assert await store.append(QUEUE, [other]) == {0: child.job_id}
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await store.append(QUEUE, [other]) == {}

    async def test_who_waits_for_the_last_job_hears_that_it_failed(self, store: Store) -> None:
        jobs, notified = chain(3), asyncio.Event()

        def listener(job_ids: Sequence[JobId] | None) -> None:
            if job_ids is None or jobs[-1].job_id in job_ids:
                notified.set()

        await self.send_flow(store, jobs)
        worker = self.worker(store)
        taken = await self.take(worker)
        handle = await store.on_finished(QUEUE, listener)
        await asyncio.sleep(0.05)
        notified.clear()
        await self.settle(worker, taken, DEAD)
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def test_a_cancelled_child_is_not_set_free(self, store: Store) -> None:
        _, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        await store.cancel(QUEUE, [second.job_id])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept())
        assert (await self.snapshot(store, second.job_id)).state is State.CANCELLED
        await self.nothing_left(worker)
