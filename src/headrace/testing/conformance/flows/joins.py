"""Jobs that wait for other jobs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history_rules import HistoryBounds
from headrace.core.job.outcome import DONE, RELEASED, Done, Outcome, Retried
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.core.job.verdict import Verdict, done_verdict, encode_verdict
from headrace.store.contract import Store
from headrace.store.queue_values import Rescheduling
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD


def linked(parent: Parcel, *children: Parcel, runs_anyway: bool = False) -> Parcel:
    """The parent, to be sent after its children."""
    bonds = tuple(Child(QUEUE, child.job_id, runs_anyway) for child in children)
    return msgspec.structs.replace(parent, children=(*parent.children, *bonds))


def chain(length: int) -> list[Parcel]:
    """Jobs that each wait for the one before."""
    jobs = [parcel()]
    for _ in range(length - 1):
        child = parcel(parents=jobs[-1:])
        jobs[-1] = linked(jobs[-1], child)
        jobs.append(child)
    return jobs


def inputs_of(delivery: LeasedDelivery) -> object:
    return msgspec.msgpack.decode(delivery.inputs)


class FlowGround(Ground):
    async def send_flow(self, store: Store, jobs: Sequence[Parcel]) -> None:
        """Children first, so that each parent finds them."""
        backwards = jobs[::-1]
        for start in range(0, len(jobs), 500):
            assert await store.append(QUEUE, backwards[start : start + 500]) == {}


class JoinsConformance(FlowGround):
    async def test_a_job_waits_until_the_one_before_it_is_done(self, store: Store) -> None:
        first, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        waiting = await self.snapshot(store, second.job_id)
        assert (waiting.state, waiting.reason) == (State.BLOCKED, "flow")
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=1)
        worker = self.worker(store)
        taken = await self.take(worker)
        assert ids_of(taken) == [first.job_id]
        await self.settle(worker, taken, kept(b"\x07"))
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (second.job_id, [7])
        assert (delivery.count, delivery.history) == (1, b"")

    async def test_what_a_job_received_is_seen_until_it_is_forgotten(self, store: Store) -> None:
        store.history_rules.set_default(HistoryBounds(10, 60_000))
        jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)

        async def seen() -> tuple[State, object]:
            (snapshot,) = await store.get(QUEUE, [jobs[1].job_id], bodies=True)
            assert snapshot is not None
            return snapshot.state, msgspec.msgpack.decode(snapshot.inputs or b"\xc0")

        assert await seen() == (State.BLOCKED, None)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        assert await seen() == (State.WAITING, [7])
        await self.settle(worker, await self.take(worker), Retried(3_600_000, HISTORY))
        assert await seen() == (State.SCHEDULED, [7])
        await store.reschedule(QUEUE, [jobs[1].job_id], Rescheduling(delay_ms=0))
        taken = await self.take(worker)
        assert await seen() == (State.RUNNING, [7])
        await self.settle(worker, taken, DEAD)
        assert await seen() == (State.DEAD, [7])
        await store.replay(QUEUE, [jobs[1].job_id])
        await self.settle(worker, await self.take(worker), kept())
        assert await seen() == (State.DONE, [7])

    async def test_results_come_in_the_order_asked_for(self, store: Store) -> None:
        parents = [parcel() for _ in range(3)]
        child = parcel(parents=parents)
        await store.append(QUEUE, [child, *(linked(each, child) for each in parents)])
        worker = self.worker(store)
        taken = await self.take(worker, 3)
        for number, delivery in reversed(list(enumerate(taken))):
            assert (await self.snapshot(store, child.job_id)).state is State.BLOCKED
            await self.settle(worker, [delivery], kept(bytes([number])))
        (delivery,) = await self.take(worker)
        assert inputs_of(delivery) == [0, 1, 2]

    async def test_a_job_may_ask_for_a_result_twice(self, store: Store) -> None:
        first, second = parcel(), parcel()
        child = parcel(parents=[first, second, first])
        await store.append(QUEUE, [child, linked(first, child), linked(second, child)])
        worker = self.worker(store)
        for number, delivery in enumerate(await self.take(worker, 2)):
            await self.settle(worker, [delivery], kept(bytes([number])))
        assert inputs_of((await self.take(worker))[0]) == [0, 1, 0]

    async def test_a_result_that_is_not_kept_is_still_passed_on(self, store: Store) -> None:
        first, _ = jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Done(done_verdict(b"\x08"), 0))
        assert await store.get(QUEUE, [first.job_id]) == [None]
        assert inputs_of((await self.take(worker))[0]) == [8]

    async def test_a_verdict_may_have_all_its_fields(self, store: Store) -> None:
        await self.send_flow(store, chain(2))
        worker = self.worker(store)
        verdict = encode_verdict(Verdict(State.DONE, b"\xa5hello"))
        await self.settle(worker, await self.take(worker), Done(verdict, 60_000))
        assert inputs_of((await self.take(worker))[0]) == ["hello"]

    async def test_a_job_without_a_result_passes_nothing_on(self, store: Store) -> None:
        await self.send_flow(store, chain(2))
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        assert inputs_of((await self.take(worker))[0]) == [None]

    async def test_results_stay_with_a_job_through_retries_and_death(self, store: Store) -> None:
        _, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), kept(b"\x07"))
        for outcome in (Retried(0, HISTORY), Retried(50, HISTORY), RELEASED, DEAD):
            (delivery,) = await self.take(worker)
            assert (delivery.job_id, inputs_of(delivery)) == (second.job_id, [7])
            await self.settle(worker, [delivery], outcome)
            await self.pass_time(0.06)
            await worker.promote(QUEUE)
        assert await store.replay(QUEUE, [second.job_id]) == [True]
        assert inputs_of((await self.take(worker))[0]) == [7]

    async def test_large_results_are_passed_on(self, store: Store) -> None:
        jobs = [parcel() for _ in range(3)]
        child = parcel(parents=jobs)
        await store.append(QUEUE, [child, *(linked(each, child) for each in jobs)])
        values = [b"x" * size for size in (200, 70_000, 300_000)]
        worker = self.worker(store)
        for delivery, value in zip(await self.take(worker, 3), values, strict=True):
            await self.settle(worker, [delivery], kept(msgspec.msgpack.encode(value)))
        assert inputs_of((await self.take(worker))[0]) == values

    @pytest.mark.parametrize(
        "outcome", [Retried(0, HISTORY), RELEASED], ids=["retried", "released"]
    )
    async def test_what_is_not_an_end_frees_nobody(self, store: Store, outcome: Outcome) -> None:
        _, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), outcome)
        assert (await self.snapshot(store, second.job_id)).state is State.BLOCKED

    async def test_a_flow_goes_on_after_a_crash(self, store: Store) -> None:
        _, second = jobs = chain(2)
        await self.send_flow(store, jobs)
        dying, other = self.worker(store), self.worker(store)
        lost = await self.take(dying)
        again = await self.reclaim(other, 1)
        assert await self.settle(dying, lost, kept(b"\x01")) == lost
        assert (await self.snapshot(store, second.job_id)).state is State.BLOCKED
        await self.settle(other, again, kept(b"\x02"))
        assert inputs_of((await self.take(other))[0]) == [2]

    async def test_its_own_time_counts_from_the_last_end(self, store: Store) -> None:
        parent = parcel()
        child = parcel(parents=[parent], delay_ms=200)
        await store.append(QUEUE, [child, linked(parent, child)])
        await self.pass_time(0.25)
        worker = self.worker(store)
        before = await store.time_ms()
        await self.settle(worker, await self.take(worker), DONE)
        snapshot = await self.snapshot(store, child.job_id)
        assert snapshot.state is State.SCHEDULED
        assert snapshot.due_ms is not None
        assert snapshot.due_ms >= before + 200
        await self.pass_time(0.21)
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker)) == [child.job_id]

    async def test_then_it_waits_for_its_lane(self, store: Store) -> None:
        parent, lane = parcel(), Constraints(lane="customer-7", priority=5)
        child, other = parcel(parents=[parent], constraints=lane), parcel(constraints=lane)
        await store.append(QUEUE, [child, linked(parent, child), other])
        worker = self.worker(store)
        inside, first = await self.take(worker, 2)
        assert ids_of([inside, first]) == [other.job_id, parent.job_id]
        await self.settle(worker, [first], kept(b"\x07"))
        assert (await self.snapshot(store, child.job_id)).reason == "lane"
        await self.settle(worker, [inside], DONE)
        (delivery,) = await self.take(worker)
        assert (delivery.job_id, inputs_of(delivery)) == (child.job_id, [7])
