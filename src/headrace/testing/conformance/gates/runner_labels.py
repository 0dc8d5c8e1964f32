"""What stores do with jobs, for jobs of each runner with and without a priority."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.job.capacity import RUNNERS, Capacity, Runner
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints, Limit
from headrace.core.job.envelope import runner_of
from headrace.core.job.outcome import DONE, Dead, Held, Outcome, Retried, task_gate
from headrace.core.job.parcel import Child, Parcel
from headrace.core.job.state import State
from headrace.store.contract import Settlement, Store, StoreConsumer
from headrace.store.values import Counts
from headrace.testing.conformance.ground import (
    HISTORY,
    QUEUE,
    Ground,
    ids_of,
    kept,
    known,
    parcel,
)

PRIORITIES = (NO_CONSTRAINTS, Constraints(priority=7), Constraints(priority=100))

each_runner = pytest.mark.parametrize("runner", RUNNERS)


def of_each() -> list[Parcel]:
    """One job for each place in which jobs wait."""
    return [parcel(constraints=each, runner=runner) for runner in RUNNERS for each in PRIORITIES]


class RunnerLabelsConformance(Ground):
    async def test_what_is_sent_twice_is_there_once(self, store: Store) -> None:
        sent = of_each()
        await store.append(QUEUE, sent)
        again = await store.append(QUEUE, sent, may_exist=True)
        assert again == {at: item.job_id for at, item in enumerate(sent)}
        plain = [item for item in sent if item.constraints is NO_CONSTRAINTS]
        assert len(await store.append(QUEUE, plain, may_exist=True)) == 3
        assert await store.count(QUEUE) == Counts(waiting=9)

    async def test_jobs_are_found_listed_and_counted(self, store: Store) -> None:
        sent = of_each()
        job_ids = [item.job_id for item in sent]
        await store.append(QUEUE, sent)
        assert await self.states(store, job_ids) == [State.WAITING] * 9
        assert sorted(await self.listed(store, State.WAITING)) == sorted(job_ids)
        worker = self.worker(store)
        taken = await self.take(worker, 9)
        assert await self.states(store, job_ids) == [State.RUNNING] * 9
        assert sorted(await self.listed(store, State.RUNNING)) == sorted(job_ids)
        assert await store.count(QUEUE) == Counts(running=9)
        assert await worker.renew(taken) == []
        found = known(await worker.recover(taken[:4]))
        assert sorted(ids_of(found)) == sorted(ids_of(taken[4:]))

    @each_runner
    async def test_waiting_jobs_of_one_runner_are_listed_as_they_will_be_fetched(
        self, store: Store, runner: Runner
    ) -> None:
        await store.append(QUEUE, [*of_each(), *of_each()])
        listed = await self.listed(store, State.WAITING, runner)
        only = Capacity(*(9 * int(each == runner) for each in RUNNERS))
        assert ids_of(known(await self.worker(store).fetch(9, 0, only))) == listed

    async def listed(self, store: Store, state: State, runner: Runner | None = None) -> list[bytes]:
        """All jobs in a state, read in small pages."""
        found: list[bytes] = []
        cursor = ""
        while True:
            page = await store.browse(QUEUE, state, cursor, 2, runner=runner)
            found += page.job_ids
            cursor = page.cursor
            if not cursor:
                return found

    async def test_outcomes_of_all_kinds_are_settled_together(self, store: Store) -> None:
        sent = [item for _ in range(4) for item in of_each()]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        taken = await self.take(worker, 36)
        outcomes: list[Outcome] = [DONE, kept(), Dead("rejected", HISTORY), Retried(0, HISTORY)]
        chosen = {item.job_id: outcomes[at // 9] for at, item in enumerate(sent)}
        settled = [Settlement(each, chosen[each.job_id]) for each in taken]
        assert await worker.settle(QUEUE, settled) == []
        assert await store.count(QUEUE) == Counts(waiting=9, dead=9)
        ended = [item.job_id for item in sent[9:18]]
        assert await self.states(store, ended) == [State.DONE] * 9
        # An outcome that comes once more finds nothing to change.
        assert len(await worker.settle(QUEUE, settled, repeat=True)) == 36
        again = await self.take(worker, 9)
        assert sorted(ids_of(again)) == sorted(item.job_id for item in sent[27:])
        assert await self.settle(worker, again, DONE) == []

    async def test_only_what_is_still_held_is_settled(self, store: Store) -> None:
        await store.append(QUEUE, of_each())
        slow, other = self.worker(store), self.worker(store)
        lost = await self.take(slow, 9)
        again = await self.reclaim(other, 9)
        refused = await self.settle(slow, lost, DONE)
        assert sorted(ids_of(refused)) == sorted(ids_of(lost))
        assert await store.count(QUEUE) == Counts(running=9)
        assert await self.settle(other, again, kept()) == []
        assert await store.count(QUEUE) == Counts()

    async def test_waiting_and_running_jobs_are_cancelled(self, store: Store) -> None:
        sent = of_each()
        job_ids = [item.job_id for item in sent]
        await store.append(QUEUE, sent)
        assert await store.cancel(QUEUE, job_ids) == [State.CANCELLED] * 9
        assert await store.count(QUEUE) == Counts()
        await store.append(QUEUE, running := of_each())
        await self.take(self.worker(store), 9)
        job_ids = [item.job_id for item in running]
        assert await store.cancel(QUEUE, job_ids) == [State.RUNNING] * 9

    async def test_dead_jobs_are_replayed_and_purged(self, store: Store) -> None:
        sent = of_each()
        job_ids = [item.job_id for item in sent]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        for _ in range(2):
            await self.settle(worker, await self.take(worker, 9), Dead("rejected", HISTORY))
            assert await store.replay(QUEUE, job_ids) == [True] * 9
            assert await store.count(QUEUE) == Counts(waiting=9)
        threads = known(await worker.fetch(9, 0, Capacity(0, 9, 0)))
        assert {runner_of(each.envelope) for each in threads} == {"thread"}
        rest = await self.take(worker, 6)
        await self.settle(worker, [*threads, *rest], Dead("rejected", HISTORY))
        assert await store.purge(QUEUE, job_ids) == [True] * 9
        assert await store.count(QUEUE) == Counts()

    @each_runner
    async def test_a_replay_with_another_envelope_goes_where_that_says(
        self, store: Store, runner: Runner
    ) -> None:
        item = parcel(constraints=Constraints(priority=3))
        await store.append(QUEUE, [item])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Dead("rejected", HISTORY))
        edited = parcel(runner=runner)
        body = edited.envelope.replace(edited.job_id, item.job_id)
        assert await store.replay(QUEUE, [item.job_id], [body]) == [True]
        only = Capacity(*(int(each == runner) for each in RUNNERS))
        others = Capacity(*(int(each != runner) for each in RUNNERS))
        assert await worker.fetch(2, 0, others) == []
        assert [each.envelope for each in await worker.fetch(2, 0, only)] == [body]

    async def test_a_paused_queue_hands_out_nothing(self, store: Store) -> None:
        await store.append(QUEUE, of_each())
        await store.pause(QUEUE)
        worker = self.worker(store)
        assert await worker.fetch(9, 0, Capacity(9, 9, 9)) == []
        await store.resume(QUEUE)
        assert len(await self.take(self.worker(store), 9)) == 9

    @each_runner
    async def test_a_job_comes_back_to_its_runner(self, store: Store, runner: Runner) -> None:
        constraints = Constraints(lane="a", limits=(Limit("few", 100, 60_000),))
        first, second = (parcel(constraints=constraints, runner=runner) for _ in range(2))
        later = parcel(delay_ms=40, runner=runner)
        child = parcel(parents=[first], runner=runner)
        parent = Parcel(
            *(first.job_id, first.envelope),
            constraints=constraints,
            children=(Child(QUEUE, child.job_id),),
        )
        await store.append(QUEUE, [child, parent, second, later])
        worker = self.worker(store)
        only = Capacity(*(9 * int(each == runner) for each in RUNNERS))
        others = Capacity(*(9 * int(each != runner) for each in RUNNERS))
        outcomes: list[Outcome] = [
            Retried(0, HISTORY),
            Retried(40, HISTORY),
            Held(task_gate("task"), HISTORY),
        ]
        ran: list[bytes] = []
        for _ in range(40):
            await self.pass_time(0.05)
            await worker.promote(QUEUE)
            assert await worker.fetch(9, 0, others) == []
            handed_back = await worker.reclaim(QUEUE, 1, last_chance=True, capacity=only)
            for delivery in known(handed_back or await worker.fetch(1, 0, only)):
                assert await worker.begin(QUEUE, [delivery]) == {}
                outcome = outcomes.pop(0) if outcomes else DONE
                await self.settle(worker, [delivery], outcome)
                ran += [] if outcome is not DONE else [delivery.job_id]
            if len(ran) == 4:
                break
        assert sorted(ran) == sorted(item.job_id for item in (first, second, later, child))

    async def test_a_debounced_job_is_for_the_runner_that_the_last_one_names(
        self, store: Store
    ) -> None:
        constraints = Constraints(unique="u", debounced=True)
        first = parcel(delay_ms=40, constraints=constraints)
        last = parcel(delay_ms=40, constraints=constraints, runner="process")
        for item in (first, last):
            await store.append(QUEUE, [item])
        await self.pass_time(0.06)
        worker = self.worker(store)
        await worker.promote(QUEUE)
        assert await worker.fetch(1, 0, Capacity(1, 1, 0)) == []
        (taken,) = known(await worker.fetch(1, 0, Capacity(0, 0, 1)))
        assert taken.job_id == first.job_id

    async def test_a_queue_is_removed_with_all_of_them(self, store: Store) -> None:
        await store.append(QUEUE, of_each())
        assert await store.remove(QUEUE) == 9
        assert await store.remove(QUEUE, force=True) == 0
        assert await store.count(QUEUE) == Counts()
        await store.append(QUEUE, sent := of_each())
        taken = await self.take(self.worker(store), 9)
        assert sorted(ids_of(taken)) == sorted(item.job_id for item in sent)

    async def test_a_worker_that_waits_hears_of_the_first_job_of_a_runner(
        self, store: Store
    ) -> None:
        worker = self.worker(store)
        handle = await worker.on_control(QUEUE, lambda _: None)
        for runner in RUNNERS:
            fetching = asyncio.create_task(self.first(worker))
            await asyncio.sleep(0.05)
            item = parcel(runner=runner)
            await store.append(QUEUE, [item])
            assert await asyncio.wait_for(fetching, 30) == item.job_id
        await handle.close()

    async def first(self, worker: StoreConsumer) -> bytes:
        """The id of the next job, as a worker waits for it."""
        while True:
            for delivery in known(await worker.fetch(1, 60, Capacity(3, 3, 3))):
                return delivery.job_id
