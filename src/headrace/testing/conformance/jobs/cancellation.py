"""Cancelling jobs, wherever they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.contract import Store
from headrace.testing.conformance.ground import (
    HISTORY,
    LEASE,
    QUEUE,
    Ground,
    ids_of,
    kept,
    parcel,
)
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD

ONE_A_MINUTE = Constraints(limits=(Limit("slow", 1, 60_000),))
LANE = Constraints(lane="customer-7")


def before_others() -> dict[str, tuple[list[Parcel], Parcel]]:
    """Jobs in each place where they can wait."""
    parent = parcel(delay_ms=60_000)
    return {
        "waiting": ([], parcel()),
        "with a priority": ([], parcel(constraints=Constraints(priority=5))),
        "scheduled": ([], parcel(delay_ms=60_000)),
        "in a lane": ([parcel(constraints=LANE)], parcel(constraints=LANE)),
        "at a limit": ([parcel(constraints=ONE_A_MINUTE)], parcel(constraints=ONE_A_MINUTE)),
        "in a flow": ([parent], parcel(parents=[parent])),
    }


class CancellationConformance(Ground):
    @pytest.mark.parametrize("where", before_others())
    async def test_a_job_that_has_not_begun_never_starts(self, store: Store, where: str) -> None:
        others, item = before_others()[where]
        await store.append(QUEUE, [*others, item])
        assert await store.cancel(QUEUE, [item.job_id]) == [State.CANCELLED]
        snapshot = await self.snapshot(store, item.job_id)
        assert snapshot.state is State.CANCELLED
        assert decode_verdict(snapshot.verdict).state is State.CANCELLED
        counts = await store.count(QUEUE)
        assert counts.waiting + counts.scheduled + counts.blocked == len(others)
        taken = await self.worker(store).fetch(10, 0)
        assert item.envelope not in [delivery.envelope for delivery in taken]

    async def test_many_are_cancelled_at_once(self, store: Store) -> None:
        sent = await self.send(store, 1000)
        assert await store.cancel(QUEUE, sent[:900]) == [State.CANCELLED] * 900
        assert ids_of(await self.take(self.worker(store), 100)) == sent[900:]

    async def test_cancelling_twice_is_cancelling_once(self, store: Store) -> None:
        (key,) = await self.send(store)
        for _ in range(2):
            assert await store.cancel(QUEUE, [key]) == [State.CANCELLED]
        assert await store.cancel(QUEUE, [key, key]) == [State.CANCELLED] * 2

    async def test_an_unknown_job_cannot_be_cancelled(self, store: Store) -> None:
        (gone, there) = await self.send(store, 2)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        answers = await store.cancel(QUEUE, [b"=nobody", gone, there])
        assert answers == [None, None, State.CANCELLED]

    @pytest.mark.parametrize("outcome", [kept(), DEAD], ids=["done", "dead"])
    async def test_what_has_ended_stays_so(self, store: Store, outcome: Outcome) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), outcome)
        before = await self.snapshot(store, key)
        assert await store.cancel(QUEUE, [key]) == [before.state]
        assert await self.snapshot(store, key) == before

    async def test_the_verdict_is_kept_as_long_as_the_job_says(self, store: Store) -> None:
        item = parcel(constraints=Constraints(ttl_ms=30_000))
        await store.append(QUEUE, [item])
        await store.cancel(QUEUE, [item.job_id])
        assert (await self.snapshot(store, item.job_id)).state is State.CANCELLED
        await self.pass_time(35)
        assert await store.get(QUEUE, [item.job_id]) == [None]

    async def test_a_released_job_is_cancelled_at_once(self, store: Store) -> None:
        first, _ = await self.send(store, 2)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), RELEASED)
        assert await store.cancel(QUEUE, [first]) == [State.CANCELLED]
        assert await self.look_regularly(self.worker(store), LEASE / 6) == []

    async def test_a_cancelled_job_leaves_its_lane(self, store: Store) -> None:
        sent = [parcel(constraints=LANE) for _ in range(4)]
        await store.append(QUEUE, sent)
        await store.cancel(QUEUE, [sent[0].job_id, sent[2].job_id])
        assert await self.run_all(store, self.worker(store)) == [sent[1].job_id, sent[3].job_id]

    async def test_a_retry_that_is_cancelled_leaves_its_lane(self, store: Store) -> None:
        first, second = sent = [parcel(constraints=LANE) for _ in range(2)]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Retried(60_000, HISTORY))
        assert await store.cancel(QUEUE, [first.job_id]) == [State.CANCELLED]
        assert ids_of(await self.take(worker)) == [second.job_id]

    async def test_a_running_job_that_is_cancelled_leaves_its_lane(self, store: Store) -> None:
        first, second = sent = [parcel(constraints=LANE) for _ in range(2)]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.cancel(QUEUE, [first.job_id])
        await self.nothing_left(worker)
        await self.settle(worker, taken, CANCELLED)
        assert ids_of(await self.take(worker)) == [second.job_id]

    async def test_a_cancelled_job_gives_back_its_turn_at_a_limit(self, store: Store) -> None:
        first, second = sent = [parcel(constraints=ONE_A_MINUTE) for _ in range(2)]
        await store.append(QUEUE, sent)
        await store.cancel(QUEUE, [first.job_id])
        worker = self.worker(store)
        await worker.promote(QUEUE)
        assert ids_of(await self.take(worker)) == [second.job_id]

    async def test_a_cancelled_job_gives_back_its_unique_name(self, store: Store) -> None:
        constraints = Constraints(unique="the one")
        first, second = parcel(constraints=constraints), parcel(constraints=constraints)
        await store.append(QUEUE, [first])
        await store.cancel(QUEUE, [first.job_id])
        assert await store.append(QUEUE, [second]) == {}

    async def test_jobs_that_wait_for_a_cancelled_one_are_cancelled(self, store: Store) -> None:
        child = parcel(parents=[parcel("parent")])
        parent = parcel("parent", children=[Child(QUEUE, child.job_id)])
        await store.append(QUEUE, [child])
        await store.append(QUEUE, [parent])
        await store.cancel(QUEUE, [parent.job_id])
        assert await self.states(store, [child.job_id]) == [State.CANCELLED]

    async def test_who_waits_for_a_job_hears_that_it_was_cancelled(self, store: Store) -> None:
        notified = asyncio.Event()

        def listener(job_ids: Sequence[JobId] | None) -> None:
            if job_ids is None or key in job_ids:
                notified.set()

        (key,) = await self.send(store)
        handle = await store.on_finished(QUEUE, listener)
        await asyncio.sleep(0.05)
        notified.clear()
        await store.cancel(QUEUE, [key])
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()
