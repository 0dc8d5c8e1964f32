"""Jobs with two lanes: one of their own, and that of all jobs of their task."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import QUEUE_LIMIT, Constraints, Limit
from headrace.core.job.outcome import DONE, RELEASED, Held, Outcome, Retried, task_gate
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store
from headrace.store.queue_values import Rescheduling
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, kept, parcel
from headrace.testing.conformance.jobs.settlement import DEAD

HOUR = 3_600_000


def job(lane: str = "", width: int = 1, *limits: Limit, task_width: int = 2) -> Parcel:
    """A job of one task, which runs `task_width` at a time."""
    return parcel(
        constraints=Constraints(
            lane=lane, width=width, limits=limits, task_lane="task", task_width=task_width
        )
    )


class TaskLanesConformance(Ground):
    async def reason(self, store: Store, item: Parcel) -> str:
        """At which gate a job is blocked; empty if it is not."""
        snapshot = await self.snapshot(store, item.job_id)
        return snapshot.reason if snapshot.state is State.BLOCKED else ""

    async def test_a_job_starts_when_both_lanes_have_room(self, store: Store) -> None:
        sent = [job("a"), job("a"), job("b"), job("c"), job()]
        await store.append(QUEUE, sent)
        reasons = [await self.reason(store, each) for each in sent]
        # The second of `a` holds no place of the task, so that of `b` runs.
        assert reasons == ["", "lane", "", "task_lane", "task_lane"]
        worker = self.worker(store)
        first, second = await self.take(worker, 2)
        assert ids_of([first, second]) == [sent[0].job_id, sent[2].job_id]
        await self.settle(worker, [first], DONE)
        # The place in the task goes to the one that came first to it.
        assert ids_of(await self.take(worker)) == [sent[3].job_id]
        await self.settle(worker, [second], DONE)
        assert ids_of(await self.take(worker)) == [sent[4].job_id]
        await self.nothing_left(worker)
        assert await self.reason(store, sent[1]) == "task_lane"

    async def test_jobs_of_a_key_keep_their_order(self, store: Store) -> None:
        sent = [job(lane) for lane in "aabbab"]
        await store.append(QUEUE, sent)
        ran = await self.run_all(store, self.worker(store), at_once=1)
        for places in ((0, 1, 4), (2, 3, 5)):
            mine = [sent[place].job_id for place in places]
            assert [each for each in ran if each in mine] == mine

    @pytest.mark.parametrize(
        "outcome",
        [DONE, kept(), DEAD, Retried(HOUR, HISTORY)],
        ids=["done", "kept", "dead", "retry"],
    )
    async def test_a_job_that_does_not_run_gives_its_place_back(
        self, store: Store, outcome: Outcome
    ) -> None:
        first, second = job("a", task_width=1), job("b", task_width=1)
        await store.append(QUEUE, [first, second])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), outcome)
        assert ids_of(await self.take(worker)) == [second.job_id]

    async def test_a_job_that_runs_again_at_once_waits_behind_others(self, store: Store) -> None:
        first, second = job("a", task_width=1), job("b", task_width=1)
        await store.append(QUEUE, [first, second])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Retried(0, HISTORY))
        assert await self.reason(store, first) == "task_lane"
        assert await self.start(worker) == [second.job_id]
        assert await self.start(worker) == [first.job_id]
        assert await store.count(QUEUE) == Counts()

    async def test_a_job_that_is_handed_back_keeps_its_places(self, store: Store) -> None:
        first, second = job("a", task_width=1), job("b", task_width=1)
        await store.append(QUEUE, [first, second])
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), RELEASED)
        taken = await self.take(worker)
        assert ids_of(taken) == [first.job_id]
        await self.settle(worker, taken, DONE)
        assert await self.start(worker) == [second.job_id]

    @pytest.mark.parametrize("gate", ["", QUEUE_LIMIT, "task_lane", "lane"])
    async def test_a_cancelled_job_gives_back_what_it_has(self, store: Store, gate: str) -> None:
        limit = Limit(QUEUE_LIMIT, 1, 100)
        sent = {
            "": job("a", 1, limit),
            QUEUE_LIMIT: job("b", 1, limit),
            "task_lane": job("c"),
            "lane": job("c"),
        }
        await store.append(QUEUE, list(sent.values()))
        assert [await self.reason(store, each) for each in sent.values()] == list(sent)
        cancelled = sent.pop(gate)
        assert await store.cancel(QUEUE, [cancelled.job_id]) == [State.CANCELLED]
        ran = await self.run_all(store, self.worker(store), at_once=1)
        assert set(ran) == {each.job_id for each in sent.values()}
        assert await store.count(QUEUE) == Counts()

    async def test_a_job_over_its_own_rate_takes_nothing_of_its_task(self, store: Store) -> None:
        mine, yours = Limit("rate:task:mine", 1, HOUR), Limit("rate:task:yours", 1, HOUR)
        sent = [job("", 1, mine), job("", 1, mine), job("", 1, mine), job("", 1, yours)]
        await store.append(QUEUE, sent)
        reasons = [await self.reason(store, each) for each in sent]
        assert reasons == ["", mine.name, mine.name, ""]

    async def test_a_job_that_waits_for_its_task_takes_nothing_of_the_queue(
        self, store: Store
    ) -> None:
        limit = Limit(QUEUE_LIMIT, 2, HOUR)
        sent = [job("", 1, limit, task_width=1) for _ in range(3)]
        other = parcel(constraints=Constraints(limits=(limit,)))
        await store.append(QUEUE, [*sent, other])
        reasons = [await self.reason(store, each) for each in [*sent, other]]
        assert reasons == ["", "task_lane", "task_lane", ""]
        worker = self.worker(store)
        await self.start(worker, 2)
        assert [await self.reason(store, each) for each in sent[1:]] == [QUEUE_LIMIT, "task_lane"]

    async def test_a_paused_job_takes_nothing_of_its_task(self, store: Store) -> None:
        first, second = job("a", task_width=1), job("b", task_width=1)
        await store.append(QUEUE, [first, second])
        worker = self.worker(store)
        await store.pause(QUEUE, "task")
        await self.settle(worker, await self.take(worker), Held(task_gate("task"), HISTORY))
        assert ids_of(await self.take(worker)) == [second.job_id]
        await store.resume(QUEUE, "task")
        await self.upkeep(store, worker)
        assert await self.reason(store, first) == "task_lane"

    async def test_a_task_may_be_the_only_lane_of_other_jobs(self, store: Store) -> None:
        """A version of a program with one lane runs beside one with two: the limit holds for
        both."""
        old = [parcel(constraints=Constraints(lane="task", width=2)) for _ in range(2)]
        new = [job("a"), job("b", task_width=1)]
        for each in (old[0], new[0], old[1], new[1]):
            await store.append(QUEUE, [each])
        worker = self.worker(store)
        taken = await self.take(worker, 2)
        assert ids_of(taken) == [old[0].job_id, new[0].job_id]
        await self.nothing_left(worker)
        await self.settle(worker, taken, DONE)
        # One of them asks to run alone.
        assert await self.start(worker) == [old[1].job_id]
        assert await self.start(worker) == [new[1].job_id]
        assert await store.count(QUEUE) == Counts()

    async def test_a_job_that_is_put_off_lets_others_of_its_task_go(self, store: Store) -> None:
        first, second = job("a", task_width=1), job("b", task_width=1)
        await store.append(QUEUE, [first, second])
        elsewhere = Rescheduling(queue="elsewhere")
        assert await store.reschedule(QUEUE, [first.job_id], elsewhere) == [False]
        assert await store.reschedule(QUEUE, [first.job_id], Rescheduling(delay_ms=HOUR)) == [True]
        assert await self.reason(store, second) == ""
