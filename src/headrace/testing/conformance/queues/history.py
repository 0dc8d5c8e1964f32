"""Promises about the history: what is kept of jobs that are done or cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history import Attempt, History, encode_history
from headrace.core.job.history_rules import HistoryBounds
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Cancelled, Dead, Done, Retried
from headrace.core.job.progress import Progress, encode_progress
from headrace.core.job.state import State
from headrace.core.job.verdict import done_verdict
from headrace.store.contract import Store, StoreConsumer
from headrace.store.values import Counts, Report
from headrace.testing.conformance.ground import (
    HISTORY,
    QUEUE,
    parcel,
)
from headrace.testing.conformance.queues.history_ground import (
    HOUR_MS,
    KEEP,
    KEPT,
    HistoryGround,
)

FAILED = Attempt(1, 1000, 2000, "first-worker", "ValueError", "no", "Traceback")


class HistoryConformance(HistoryGround):
    """What is kept of ended jobs, and its bounds."""

    async def test_a_done_job_is_kept_with_all_of_it(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        sent = parcel(constraints=Constraints(lane="a"))
        await store.append(QUEUE, [sent])
        first, second = self.worker(store), self.worker(store, "second")
        (taken,) = await self.take(first)
        failed = encode_history(History((FAILED,), 1))
        await self.settle(first, [taken], Retried(0, failed))
        (again,) = await self.take(second)
        progress = encode_progress(Progress(0.5, "half"))
        await store.report(QUEUE, [Report(sent.job_id, progress, ("a line",))])
        now_ms = await store.time_ms()
        again.task, again.attempt, again.started_ms, again.took_us = "task", 2, now_ms, 1500
        verdict = done_verdict(b"\x01")
        await self.settle(second, [again], Done(verdict, HOUR_MS))
        (kept,) = (await store.history(QUEUE)).jobs
        assert kept.job_id == sent.job_id
        assert (kept.state, kept.task, kept.attempt) == (State.DONE, "task", 2)
        assert (kept.worker, kept.started_ms, kept.took_us) == ("second", now_ms, 1500)
        assert kept.envelope == sent.envelope
        assert kept.history == failed
        assert kept.verdict == verdict
        assert kept.progress == progress
        assert kept.constraints == again.constraints
        assert now_ms - 60_000 < kept.ready_ms <= kept.ended_ms
        assert kept.ended_ms >= now_ms
        assert (await store.log(QUEUE, sent.job_id)).lines == ["a line"]
        (found,) = await store.get(QUEUE, [sent.job_id], bodies=True)
        assert found is not None
        assert found.ended == kept
        assert (found.state, found.verdict, found.envelope) == (State.DONE, verdict, sent.envelope)

    async def test_a_job_without_a_result_is_found_by_its_history(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        job_ids = await self.do(store, 3)
        assert await self.states(store, job_ids) == [State.DONE] * 3
        assert await store.locate([QUEUE, "other"], job_ids[1]) == [QUEUE]
        assert await store.cancel(QUEUE, job_ids[:1]) == [State.DONE]
        assert await store.count(QUEUE) == Counts()
        (found,) = await store.get(QUEUE, job_ids[2:], bodies=True)
        assert found is not None
        assert found.ended is not None
        assert found.ended.job_id == job_ids[2]
        assert found.verdict == b""

    async def test_a_result_that_has_expired_is_only_in_the_history(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        (job_id,) = await self.send(store)
        worker, verdict = self.worker(store), done_verdict(b"\x01")
        await self.settle(worker, await self.take(worker), Done(verdict, 100))
        await self.pass_time(0.15)
        (found,) = await store.get(QUEUE, [job_id])
        assert found is not None
        assert (found.state, found.verdict) == (State.DONE, b"")
        (found,) = await store.get(QUEUE, [job_id], bodies=True)
        assert found is not None
        assert (found.state, found.verdict) == (State.DONE, verdict)

    async def test_nothing_is_kept_unless_it_is_asked_for(self, store: Store) -> None:
        store.history_rules.set_default(None)
        job_ids = await self.do(store, 3)
        assert await store.history(QUEUE) == await store.history("never-used")
        assert await self.states(store, job_ids) == [None] * 3

    async def test_a_task_has_bounds_of_its_own(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        store.history_rules.set("never", None)
        store.history_rules.set("few", HistoryBounds(2, HOUR_MS))
        names = ["never", "few", "plain"] * 3
        parcels = [parcel(task=name) for name in names]
        await store.append(QUEUE, parcels)
        worker = self.worker(store)
        taken = await self.take(worker, 9)
        by_id = {each.job_id: name for each, name in zip(parcels, names, strict=True)}
        for each in taken:
            each.task = by_id[each.job_id]
        assert await self.settle(worker, taken, DONE) == []
        kept = sorted(job.task for job in await self.all_ended(store))
        assert kept == ["few", "few", "plain", "plain", "plain"]
        paged = await self.all_ended(store, limit=2)
        assert sorted(job.task for job in paged) == kept
        assert len({job.job_id for job in paged}) == 5
        found = await self.states(store, [each.job_id for each in parcels])
        assert found.count(State.DONE) == 5

    @pytest.mark.parametrize("together", [1, 3, 7])
    async def test_no_more_are_kept_than_asked_for(self, store: Store, together: int) -> None:
        store.history_rules.set_default(HistoryBounds(5, HOUR_MS))
        ended: list[JobId] = []
        for _ in range(12 // together + 1):
            ended += await self.do(store, together)
            kept = [job.job_id for job in await self.all_ended(store, limit=2)]
            assert sorted(kept) == sorted(ended[-5:]) or (
                # Of jobs that are settled together, any may be the last.
                len(kept) == min(5, len(ended)) and set(kept) <= set(ended[-(5 + together) :])
            )
            found = await self.states(store, ended)
            assert found.count(State.DONE) == len(kept)

    async def test_bounds_hold_however_many_workers_settle(self, store: Store) -> None:
        store.history_rules.set_default(HistoryBounds(20, HOUR_MS))
        job_ids = await self.send(store, 120)
        workers = [self.worker(store) for _ in range(6)]
        taken = [await self.take(worker, 20) for worker in workers]

        async def settle(worker: StoreConsumer, mine: Sequence[LeasedDelivery]) -> None:
            for at in range(0, 20, 4):
                await self.settle_done(worker, mine[at : at + 4])

        await asyncio.gather(*map(settle, workers, taken))
        kept = await self.all_ended(store, limit=7)
        assert len(kept) == len({job.job_id for job in kept}) == 20
        assert {job.job_id for job in kept} < set(job_ids)

    async def test_jobs_are_kept_for_a_time(self, store: Store) -> None:
        store.history_rules.set_default(HistoryBounds(100, 40_000))
        job_ids = await self.do(store, 2)
        assert len(await self.all_ended(store)) == 2
        await self.pass_time(45)
        assert await self.all_ended(store) == []
        assert await self.states(store, job_ids) == [None, None]
        assert await store.locate([QUEUE], job_ids[0]) == []
        assert await store.forget(QUEUE, job_ids) == [False, False]

    async def test_pages_have_each_job_once_the_latest_first(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        store.history_rules.set("own", HistoryBounds(50, HOUR_MS))
        ended: list[set[JobId]] = []
        for at in range(6):
            ended.append(set(await self.do(store, 4, "own" if at % 2 else "task")))
            await self.pass_time(0.002)
        kept = await self.all_ended(store, limit=3)
        assert [job.ended_ms for job in kept] == sorted(
            [job.ended_ms for job in kept], reverse=True
        )
        listed = [job.job_id for job in kept]
        assert [set(listed[at : at + 4]) for at in range(0, 24, 4)] == ended[::-1]

    async def test_browse_lists_done_and_cancelled_jobs(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        done = await self.do(store, 3)
        cancelled = await self.send(store, 2)
        assert await store.cancel(QUEUE, cancelled) == [State.CANCELLED] * 2
        assert set((await store.browse(QUEUE, State.DONE)).job_ids) == set(done)
        assert set((await store.browse(QUEUE, State.CANCELLED)).job_ids) == set(cancelled)
        only = await store.history(QUEUE, state=State.CANCELLED)
        assert {job.job_id for job in only.jobs} == set(cancelled)
        assert len(await self.all_ended(store)) == 5

    async def test_a_job_that_was_cancelled_before_it_ran_is_kept(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        sent = [parcel(), parcel(delay_ms=HOUR_MS), parcel(constraints=Constraints(lane="a"))]
        await store.append(QUEUE, sent)
        job_ids = [each.job_id for each in sent]
        assert await store.cancel(QUEUE, job_ids) == [State.CANCELLED] * 3
        kept = {job.job_id: job for job in await self.all_ended(store)}
        assert [kept[each.job_id].envelope for each in sent] == [each.envelope for each in sent]
        assert {job.state for job in kept.values()} == {State.CANCELLED}
        assert {job.task for job in kept.values()} == {"task"}
        found = await store.get(QUEUE, job_ids, bodies=True)
        assert [each and each.state for each in found] == [State.CANCELLED] * 3

    async def test_a_job_that_was_cancelled_while_it_ran_is_kept(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        (job_id, other) = await self.send(store, 2)
        worker = self.worker(store, "wanda")
        taken = await self.take(worker, 2)
        assert await store.cancel(QUEUE, [job_id, other]) == [State.RUNNING] * 2
        ended = encode_history(History((FAILED,), 1))
        mine = {each.job_id: each for each in taken}
        await self.settle(worker, [mine[job_id]], Cancelled(KEPT.verdict, 1000, ended))
        await self.settle(worker, [mine[other]], Retried(1000, ended))
        kept = {job.job_id: job for job in await self.all_ended(store)}
        assert [kept[key].state for key in (job_id, other)] == [State.CANCELLED] * 2
        assert [kept[key].worker for key in (job_id, other)] == ["wanda"] * 2
        assert [kept[key].history for key in (job_id, other)] == [ended] * 2

    async def test_dead_jobs_are_not_in_the_history(self, store: Store) -> None:
        store.history_rules.set_default(KEEP)
        (job_id,) = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Dead("failed", HISTORY))
        assert await self.all_ended(store) == []
        assert await store.replay(QUEUE, [job_id]) == [True]
        await self.settle_done(worker, await self.take(worker))
        assert [job.job_id for job in await self.all_ended(store)] == [job_id]
