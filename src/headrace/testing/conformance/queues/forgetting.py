"""Promises about what is not in the history: lost, live and forgotten jobs."""

from __future__ import annotations

import pytest

from headrace.core.job.history_rules import HistoryBounds
from headrace.core.job.outcome import DONE, Dead
from headrace.core.job.state import State
from headrace.store.contract import Settlement, Store
from headrace.store.values import IdempotencyKey, Report
from headrace.testing.conformance.ground import (
    HISTORY,
    LEASE,
    QUEUE,
    ids_of,
    known,
    parcel,
)
from headrace.testing.conformance.queues.history_ground import (
    HOUR_MS,
    KEEP,
    KEPT,
    HistoryGround,
)


class ForgettingConformance(HistoryGround):
    """What is not kept, or not any more."""

    async def test_a_lost_delivery_is_not_kept(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        job_ids = await self.send(store, 2)
        slow, quick = self.worker(store), self.worker(store)
        taken = await self.take(slow, 2)
        await self.pass_time(LEASE * 1.2)
        again = await self.reclaim(quick, 2)
        lost = await slow.settle(QUEUE, [Settlement(each, DONE) for each in taken])
        assert sorted(ids_of(lost)) == sorted(job_ids)
        assert await self.all_ended(store) == []
        assert await self.states(store, job_ids) == [State.RUNNING] * 2
        await self.settle_done(quick, again[:1])
        assert [job.job_id for job in await self.all_ended(store)] == ids_of(again[:1])

    async def test_a_settle_that_is_asked_again_keeps_a_job_once(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        (job_id,) = await self.send(store)
        worker, key = self.worker(store), IdempotencyKey()
        (taken,) = await self.take(worker)
        for repeat in (False, True):
            settled = [Settlement(taken, DONE)]
            lost = await worker.settle(QUEUE, settled, repeat=repeat, idempotency=key)
            assert lost == []
        assert [job.job_id for job in await self.all_ended(store)] == [job_id]

    async def test_a_job_is_never_both_kept_and_live(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        again = [parcel("again"), parcel("other")]
        await store.append(QUEUE, again)
        worker = self.worker(store)
        await self.settle_done(worker, await self.take(worker, 2))
        assert len(await self.all_ended(store)) == 2
        assert await store.append(QUEUE, again[:1], may_exist=True) == {}
        assert [job.job_id for job in await self.all_ended(store)] == [again[1].job_id]
        assert await self.states(store, [again[0].job_id]) == [State.WAITING]
        assert await store.forget(QUEUE, [again[0].job_id]) == [False]
        await self.settle_done(worker, await self.take(worker))
        assert (await self.all_ended(store))[0].job_id == again[0].job_id
        assert await store.forget(QUEUE, [again[0].job_id]) == [True]
        assert [job.job_id for job in await self.all_ended(store)] == [again[1].job_id]

    async def test_of_a_job_that_ended_twice_the_last_life_is_listed(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        store.history_rules.set("own", HistoryBounds(50, HOUR_MS))
        worker, other = self.worker(store), parcel("other")
        for each in (parcel("twice"), other, parcel("twice", task="own")):
            await store.append(QUEUE, [each], may_exist=True)
            await self.settle_done(worker, known(await self.take(worker)))
            await self.pass_time(0.002)
        twice = parcel("twice").job_id
        assert await self.ended_ids(store) == [twice, other.job_id]
        assert [job.task for job in await self.all_ended(store, limit=1)] == ["own", "task"]
        again = parcel("twice", delay_ms=HOUR_MS)
        await store.append(QUEUE, [again], may_exist=True)
        assert await store.cancel(QUEUE, [twice]) == [State.CANCELLED]
        assert await self.ended_ids(store, State.CANCELLED) == [twice]
        assert await self.ended_ids(store, State.DONE) == [other.job_id]
        assert (await store.browse(QUEUE, State.DONE)).job_ids == [other.job_id]
        assert await store.forget(QUEUE, [twice]) == [True]
        assert await self.ended_ids(store) == [other.job_id]

    async def test_a_forgotten_job_leaves_nothing(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        sent = [parcel() for _ in range(5)] + [parcel("by name")]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker, 6)
        await store.report(QUEUE, [Report(each.job_id, b"", ("line",)) for each in sent])
        for each in taken:
            each.task = "task"
        assert await self.settle(worker, taken, KEPT) == []
        gone = [sent[1].job_id, sent[5].job_id]
        assert await store.forget(QUEUE, [*gone, sent[1].job_id, b"=unknown"]) == [
            *(True, True, True),
            False,
        ]
        left = [each.job_id for each in sent if each.job_id not in gone]
        assert sorted(job.job_id for job in await self.all_ended(store)) == sorted(left)
        assert await self.states(store, gone) == [None, None]
        assert await self.states(store, left) == [State.DONE] * 4
        assert (await store.log(QUEUE, gone[0])).lines == []
        assert (await store.log(QUEUE, left[0])).lines == ["line"]
        kept = {job.job_id: job for job in await self.all_ended(store)}
        assert kept[left[0]].envelope == sent[0].envelope
        assert kept[left[0]].verdict == KEPT.verdict
        assert await store.forget(QUEUE, gone) == [False, False]
        assert len(await self.do(store, 2)) == 2
        assert len(await self.all_ended(store)) == 6

    @pytest.mark.parametrize("large", [False, True])
    async def test_what_was_beyond_the_bound_does_not_come_back(
        self, store: Store, large: bool
    ) -> None:
        store.history_rules.set_default(HistoryBounds(3, HOUR_MS))
        worker = self.worker(store)
        sent = [parcel(payload=b"x" * (5_000 if large else 1)) for _ in range(10)]
        for each in sent:
            await store.append(QUEUE, [each])
            await self.settle_done(worker, await self.take(worker))
        job_ids = [each.job_id for each in sent]
        assert await self.ended_ids(store) == job_ids[:-4:-1]
        assert await store.forget(QUEUE, job_ids[8:9]) == [True]
        assert await self.ended_ids(store) == [job_ids[9], job_ids[7]]
        assert await self.states(store, job_ids[:7]) == [None] * 7
        assert await store.forget(QUEUE, job_ids) == [False] * 7 + [True, False, True]
        assert await self.ended_ids(store) == []
        assert await store.forget(QUEUE, job_ids) == [False] * 10
        assert await self.states(store, job_ids) == [None] * 10
        later = [(await self.do(store))[0] for _ in range(5)]
        assert await self.ended_ids(store) == later[:1:-1]

    async def test_live_jobs_are_not_forgotten(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        job_ids = await self.send(store, 2)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Dead("failed", HISTORY))
        assert await store.forget(QUEUE, job_ids) == [False, False]
        assert (await store.count(QUEUE)).waiting == 1
        assert (await store.count(QUEUE)).dead == 1

    async def test_arguments_that_are_too_large_are_left_out(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        large = parcel(payload=b"x" * 20_000)
        await store.append(QUEUE, [large, parcel()])
        worker = self.worker(store)
        taken = await self.take(worker, 2)
        await self.settle_done(worker, taken)
        kept = {job.job_id: job for job in await self.all_ended(store)}
        assert len(kept) == 2
        assert kept[large.job_id].envelope == b""
        assert kept[large.job_id].task == "task"

    async def test_a_removed_queue_has_no_history(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        store.history_rules.set("own", HistoryBounds(50, HOUR_MS))
        job_ids = await self.do(store, 3) + await self.do(store, 3, "own")
        for worker in self._workers:
            await worker.close()
        self._workers.clear()
        assert await store.remove(QUEUE) == 0
        assert await self.all_ended(store) == []
        assert await self.states(store, job_ids) == [None] * 6
