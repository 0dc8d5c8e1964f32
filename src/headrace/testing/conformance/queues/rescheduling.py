"""Another time, priority or queue for jobs that have not begun."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Constraints, Limit, decode_constraints
from headrace.core.job.outcome import DONE, Retried
from headrace.core.job.parcel import Child
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.queue_values import Rescheduling
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, known, parcel

FAR = f"{QUEUE}-far"
NOW = Rescheduling(delay_ms=0)
LATER = Rescheduling(delay_ms=60_000)
AWAY = Rescheduling(queue=FAR)


class ReschedulingConformance(Ground):
    async def test_a_scheduled_job_runs_now(self, store: Store) -> None:
        item, worker = parcel(delay_ms=60_000), self.worker(store)
        await store.append(QUEUE, [item])
        assert await store.reschedule(QUEUE, [item.job_id], NOW) == [True]
        assert await store.count(QUEUE) == Counts(waiting=1)
        assert ids_of(await self.take(worker)) == [item.job_id]
        await self.nothing_left(worker)

    async def test_a_waiting_job_runs_later(self, store: Store) -> None:
        worker = self.worker(store)
        first, second = await self.send(store, 2)
        assert await store.reschedule(QUEUE, [first], Rescheduling(delay_ms=50)) == [True]
        assert await store.count(QUEUE) == Counts(waiting=1, scheduled=1)
        assert await self.run_all(store, worker) == [second, first]

    async def test_a_scheduled_job_gets_another_time(self, store: Store) -> None:
        item, now = parcel(delay_ms=60_000), await store.time_ms()
        await store.append(QUEUE, [item])
        to = Rescheduling(at_ms=now + 3_600_000)
        assert await store.reschedule(QUEUE, [item.job_id], to) == [True]
        assert (await self.snapshot(store, item.job_id)).due_ms == now + 3_600_000
        soon = Rescheduling(delay_ms=20)
        assert await store.reschedule(QUEUE, [item.job_id], soon) == [True]
        assert await self.run_all(store, self.worker(store)) == [item.job_id]

    async def test_a_job_gets_another_priority(self, store: Store) -> None:
        worker = self.worker(store)
        sent = [parcel(constraints=Constraints(priority=each)) for each in (5, 0, 0)]
        later = parcel(delay_ms=20)
        await store.append(QUEUE, [*sent, later])
        chosen = [sent[2].job_id, later.job_id]
        assert await store.reschedule(QUEUE, chosen, Rescheduling(priority=9)) == [True, True]
        taken = await self.take(worker, 1)
        assert ids_of(taken) == [sent[2].job_id]
        assert decode_constraints(taken[0].constraints).priority == 9
        low = Rescheduling(priority=0)
        assert await store.reschedule(QUEUE, [sent[0].job_id], low) == [True]
        await self.pass_time(0.03)
        await worker.promote(QUEUE)
        order = [later.job_id, sent[1].job_id, sent[0].job_id]
        assert [ids_of(await self.take(worker))[0] for _ in range(3)] == order

    async def test_a_job_that_waits_stays_in_its_place_if_nothing_changes(
        self, store: Store
    ) -> None:
        sent = await self.send(store, 3)
        for change in (NOW, Rescheduling(priority=0)):
            assert await store.reschedule(QUEUE, sent[:1], change) == [True]
        assert ids_of(await self.take(self.worker(store), 3)) == sent

    async def test_only_jobs_that_have_not_begun_are_moved(self, store: Store) -> None:
        worker = self.worker(store)
        sent = [parcel(constraints=Constraints(lane="a")) for _ in range(2)]
        done = parcel()
        await store.append(QUEUE, [done])
        await self.settle(worker, await self.take(worker), DONE)
        await store.append(QUEUE, sent)
        await self.take(worker)
        chosen = [done.job_id, sent[0].job_id, sent[1].job_id, parcel().job_id]
        for change in (NOW, LATER, Rescheduling(priority=3), AWAY):
            assert await store.reschedule(QUEUE, chosen, change) == [False] * 4
        assert await store.count(QUEUE) == Counts(running=1, blocked=1)

    async def test_a_job_that_is_put_off_lets_others_of_its_lane_go(self, store: Store) -> None:
        worker = self.worker(store)
        sent = [parcel(constraints=Constraints(lane="a")) for _ in range(2)]
        await store.append(QUEUE, sent)
        assert await store.reschedule(QUEUE, [sent[0].job_id], LATER) == [True]
        assert await store.count(QUEUE) == Counts(waiting=1, scheduled=1)
        assert await store.reschedule(QUEUE, [sent[0].job_id], NOW) == [True]
        assert await store.count(QUEUE) == Counts(waiting=1, blocked=1)
        assert await self.run_all(store, worker) == [sent[1].job_id, sent[0].job_id]

    async def test_a_job_that_is_put_off_counts_at_no_limit(self, store: Store) -> None:
        worker = self.worker(store)
        constraints = Constraints(limits=(Limit("one", 1, 60_000),))
        first, second = (parcel(constraints=constraints) for _ in range(2))
        await store.append(QUEUE, [first])
        assert await store.reschedule(QUEUE, [first.job_id], LATER) == [True]
        await store.append(QUEUE, [second])
        assert await self.start(worker) == [second.job_id]

    async def test_a_retry_runs_now_with_its_history(self, store: Store) -> None:
        worker = self.worker(store)
        (job_id,) = await self.send(store)
        await self.settle(worker, await self.take(worker), Retried(60_000, HISTORY))
        assert await store.reschedule(QUEUE, [job_id], NOW) == [True]
        (delivery,) = await self.take(worker)
        assert delivery.history == HISTORY

    async def test_a_debounced_job_that_runs_now_frees_its_name(self, store: Store) -> None:
        constraints = Constraints(unique="u", debounced=True)
        first, second = (parcel(delay_ms=60_000, constraints=constraints) for _ in range(2))
        await store.append(QUEUE, [first])
        assert await store.reschedule(QUEUE, [first.job_id], NOW) == [True]
        assert await store.append(QUEUE, [second]) == {}

    async def test_a_job_moves_to_another_queue(self, store: Store) -> None:
        here, there = self.worker(store), self.worker(store, queues=[FAR])
        constraints = Constraints(limits=(Limit("few", 5, 60_000),))
        sent = [parcel(), parcel(constraints=constraints), parcel(delay_ms=60_000)]
        await store.append(QUEUE, [*sent, parcel(constraints=constraints)])
        moved = [item.job_id for item in sent]
        assert await store.reschedule(QUEUE, moved, AWAY) == [True] * 3
        assert await store.count(QUEUE) == Counts(waiting=1)
        assert await store.count(FAR) == Counts(waiting=2, scheduled=1)
        assert FAR in await store.queues()
        assert await store.locate([QUEUE, FAR], moved[0]) == [FAR]
        now = Rescheduling(delay_ms=0, priority=3)
        assert await store.reschedule(FAR, moved, now) == [True] * 3
        assert sorted(await self.run_all(store, there, queues=[FAR])) == sorted(moved)
        assert len(await self.run_all(store, here)) == 1

    async def test_a_moved_job_keeps_its_history_and_can_have_another_time(
        self, store: Store
    ) -> None:
        here, there = self.worker(store), self.worker(store, queues=[FAR])
        (job_id,) = await self.send(store)
        await self.settle(here, await self.take(here), Retried(60_000, HISTORY))
        to = Rescheduling(delay_ms=0, priority=7, queue=FAR)
        assert await store.reschedule(QUEUE, [job_id], to) == [True]
        (delivery,) = known(await there.fetch(1, 1))
        assert delivery.history == HISTORY
        assert decode_constraints(delivery.constraints).priority == 7
        assert await store.get(QUEUE, [job_id]) == [None]

    @pytest.mark.parametrize("width", [1, 2])
    async def test_jobs_of_a_lane_stay_together(self, store: Store, width: int) -> None:
        constraints = Constraints(lane="a", width=width)
        sent = [parcel(constraints=constraints) for _ in range(3)]
        later = parcel(constraints=constraints, delay_ms=20)
        await store.append(QUEUE, [*sent, later])
        chosen = [item.job_id for item in (*sent, later)]
        assert await store.reschedule(QUEUE, chosen, AWAY) == [False] * 4
        assert await store.count(FAR) == Counts()
        assert await self.run_all(store, self.worker(store)) == chosen

    async def test_a_job_that_others_know_by_its_queue_stays(self, store: Store) -> None:
        child = parcel("child")
        parent = parcel("parent", children=[Child(QUEUE, child.job_id)])
        unique = parcel(constraints=Constraints(unique="u"))
        await store.append(QUEUE, [parcel("child", parents=[parent]), parent, unique])
        chosen = [parent.job_id, unique.job_id, child.job_id]
        assert await store.reschedule(QUEUE, chosen, AWAY) == [False] * 3
        (done,) = await self.send(store)
        await store.once_set(QUEUE, done, "paid", b"1")
        assert await store.reschedule(QUEUE, [done], AWAY) == [False]
        assert await store.count(FAR) == Counts()
        assert (await self.snapshot(store, parent.job_id)).state is State.WAITING
