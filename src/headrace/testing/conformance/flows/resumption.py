"""Dead jobs of a flow that are replayed: those that waited for them go on."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import Outcome
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.flow_values import Cause
from headrace.store.values import Arrival, Counts
from headrace.testing.conformance.flows.joins import FlowGround, chain, inputs_of, linked
from headrace.testing.conformance.ground import QUEUE, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD


def fan_in(count: int) -> tuple[list[Parcel], Parcel]:
    """Jobs, and one that waits for all of them."""
    parents = [parcel() for _ in range(count)]
    child = parcel(parents=parents)
    return [linked(each, child) for each in parents], child


class ResumptionConformance(FlowGround):
    async def test_what_follows_a_replayed_job_goes_on(self, store: Store) -> None:
        jobs = chain(4)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await store.replay(QUEUE, [jobs[0].job_id]) == [True]
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=3)
        second = await self.snapshot(store, jobs[1].job_id)
        assert (second.state, second.reason, second.verdict) == (State.BLOCKED, "flow", b"")
        ran = await self.run_all(store, worker, kept())
        assert ran == [job.job_id for job in jobs]
        assert await store.count(QUEUE) == Counts()

    async def test_asking_twice_resumes_once(self, store: Store) -> None:
        first, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await store.replay(QUEUE, [first.job_id, first.job_id]) == [True, False]
        assert await store.replay(QUEUE, [first.job_id]) == [False]
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        assert await store.replay(QUEUE, [first.job_id]) == [False]
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (second.job_id, [7])
        await self.settle(worker, [delivery], kept())
        await self.nothing_left(worker)

    async def test_results_of_the_others_are_kept(self, store: Store) -> None:
        """Those that came before the failure, and those that came after it."""
        parents, child = fan_in(4)
        await store.append(QUEUE, [child, *parents])
        worker = self.worker(store)
        one, two, three, four = await self.take(worker, 4)
        await self.settle(worker, [one], kept(b"\x01"))
        await self.settle(worker, [two], DEAD)
        assert (await self.snapshot(store, child.job_id)).state is State.DEAD
        await self.settle(worker, [three], kept(b"\x03"))
        await store.replay(QUEUE, [two.job_id])
        assert (await self.snapshot(store, child.job_id)).state is State.BLOCKED
        await self.settle(worker, [four], kept(b"\x04"))
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (child.job_id, [1, 2, 3, 4])

    async def test_a_job_goes_on_when_all_that_failed_were_replayed(self, store: Store) -> None:
        parents, child = fan_in(3)
        await store.append(QUEUE, [child, *parents])
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        await self.settle(worker, taken[:2], DEAD)
        await self.settle(worker, taken[2:], kept(b"\x03"))
        await store.replay(QUEUE, [taken[0].job_id])
        await self.settle(worker, await self.take(worker), kept(b"\x01"))
        assert (await self.snapshot(store, child.job_id)).state is State.DEAD
        assert await cause_of(store, child.job_id) == Cause(QUEUE, taken[1].job_id)
        await store.replay(QUEUE, [taken[1].job_id])
        assert (await self.snapshot(store, child.job_id)).state is State.BLOCKED
        await self.settle(worker, await self.take(worker), kept(b"\x02"))
        assert inputs_of((await self.take(worker))[0]) == [1, 2, 3]

    async def test_a_job_that_fails_again_is_replayed_again(self, store: Store) -> None:
        first, second, third = jobs = chain(3)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        for _ in range(3):
            await self.settle(worker, await self.take(worker), DEAD)
            assert await store.count(QUEUE) == Counts(dead=3)
            assert await store.replay(QUEUE, [first.job_id]) == [True]
        assert await self.run_all(store, worker, kept()) == ids_of_all([first, second, third])

    async def test_a_job_that_waits_for_a_dead_one_is_not_replayed_itself(
        self, store: Store
    ) -> None:
        first, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await store.replay(QUEUE, [second.job_id, first.job_id]) == [False, True]
        assert await self.run_all(store, worker, kept()) == [first.job_id, second.job_id]

    async def test_a_purged_job_is_why_those_behind_it_stay_dead(self, store: Store) -> None:
        """Also when the job that failed before it has been replayed."""
        first, second, third, fourth = jobs = chain(4)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert await store.purge(QUEUE, [second.job_id]) == [True]
        for behind in (third, fourth):
            assert await cause_of(store, behind.job_id) == Cause(QUEUE, second.job_id)
        assert await store.replay(QUEUE, [first.job_id]) == [True]
        assert await self.run_all(store, worker, kept()) == [first.job_id]
        for behind in (third, fourth):
            assert await cause_of(store, behind.job_id) == Cause(QUEUE, second.job_id)
        assert await store.purge(QUEUE, ids_of_all([third, fourth])) == [True, True]

    async def test_a_failed_flow_names_the_job_that_failed_first(self, store: Store) -> None:
        jobs = chain(3)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept())
        await self.settle(worker, await self.take(worker), DEAD)
        assert await cause_of(store, jobs[2].job_id) == Cause(QUEUE, jobs[1].job_id)
        assert await cause_of(store, jobs[1].job_id) is None

    async def test_who_runs_anyway_does_not_run_again(self, store: Store) -> None:
        parent = parcel()
        child = parcel(parents=[parent])
        await store.append(QUEUE, [child, linked(parent, child, runs_anyway=True)])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        assert inputs_of((await self.take(worker))[0]) == [None]
        await store.replay(QUEUE, [parent.job_id])
        assert ids_of(await self.take(worker)) == [parent.job_id]
        await self.nothing_left(worker)

    async def test_a_child_may_come_after_its_parent_died(self, store: Store) -> None:
        [parent] = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        child = parcel(parents=[Parcel(parent, b"")])
        await store.append(QUEUE, [child])
        ending = await store.follow(QUEUE, parent, [Child(QUEUE, child.job_id)])
        assert ending is not None
        await store.arrive(QUEUE, [Arrival(child.job_id, parent, ending)])
        assert await cause_of(store, child.job_id) == Cause(QUEUE, parent)
        await store.replay(QUEUE, [parent])
        assert await self.run_all(store, worker, kept()) == [parent, child.job_id]

    @pytest.mark.parametrize("other", [DEAD, CANCELLED], ids=["dead", "cancelled"])
    async def test_a_resumed_job_ends_as_its_other_parents_do(
        self, store: Store, other: Outcome
    ) -> None:
        parents, child = fan_in(2)
        await store.append(QUEUE, [child, *parents])
        worker = self.worker(store)
        one, two = await self.take(worker, 2)
        await self.settle(worker, [one], DEAD)
        await self.end(store, worker, [two], other)
        await store.replay(QUEUE, [one.job_id])
        expected = State.DEAD if other is DEAD else State.CANCELLED
        assert (await self.snapshot(store, child.job_id)).state is expected
        await self.settle(worker, await self.take(worker), kept())
        await self.nothing_left(worker)
        await store.purge(QUEUE, [two.job_id, child.job_id])

    async def test_a_replayed_job_may_be_cancelled(self, store: Store) -> None:
        jobs = chain(3)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await store.replay(QUEUE, [jobs[0].job_id])
        await store.cancel(QUEUE, [jobs[0].job_id])
        assert await self.states(store, ids_of_all(jobs)) == [State.CANCELLED] * 3

    async def test_a_resumed_job_has_its_name_again(self, store: Store) -> None:
        parent, constraints = parcel(), Constraints(unique="the one")
        child = parcel(parents=[parent], constraints=constraints)
        await store.append(QUEUE, [child, linked(parent, child)])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await store.replay(QUEUE, [parent.job_id])
        other = parcel(constraints=constraints)
        assert await store.append(QUEUE, [other]) == {0: child.job_id}
        assert await self.run_all(store, worker, kept()) == [parent.job_id, child.job_id]

    async def test_who_waits_for_the_resumed_job_gets_its_new_result(self, store: Store) -> None:
        first, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await store.replay(QUEUE, [first.job_id])
        seen = await self.snapshot(store, second.job_id)
        assert (seen.state, seen.verdict) == (State.BLOCKED, b"")

    async def test_purged_jobs_leave_nothing_of_their_flow(self, store: Store) -> None:
        parents, child = fan_in(3)
        await store.append(QUEUE, [child, *parents])
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        await self.settle(worker, taken[:1], kept())
        await self.settle(worker, taken[1:], DEAD)
        gone = [child.job_id, *ids_of(taken[1:])]
        assert await store.purge(QUEUE, gone) == [True] * 3
        assert await store.replay(QUEUE, gone) == [False] * 3
        assert await store.count(QUEUE) == Counts()

    async def test_many_that_follow_go_on(self, store: Store) -> None:
        parent = parcel()
        children = [parcel(parents=[parent]) for _ in range(1200)]
        await self.send_flow(store, [linked(parent, *children), *children])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await self.upkeep(store, worker)
        assert await store.count(QUEUE) == Counts(dead=1201)
        await store.replay(QUEUE, [parent.job_id])
        await self.upkeep(store, worker)
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=1200)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        await self.upkeep(store, worker)
        taken = await self.take(worker, 1200)
        assert all(inputs_of(delivery) == [7] for delivery in taken)


async def cause_of(store: Store, job_id: JobId) -> Cause | None:
    (snapshot,) = await store.get(QUEUE, [job_id], bodies=True)
    assert snapshot is not None
    assert snapshot.state is State.DEAD
    return snapshot.cause


def ids_of_all(jobs: list[Parcel]) -> list[JobId]:
    return [job.job_id for job in jobs]
