"""A burst of starts, and an even pace after it."""

from __future__ import annotations

import pytest

from headrace.core.job.constraints import Limit
from headrace.core.job.outcome import RELEASED, Held, task_gate
from headrace.store.contract import Store
from headrace.testing.conformance.gates.limits import limited
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, known
from headrace.testing.conformance.jobs.settlement import DEAD

PACED = Limit("paced", 10, 10_000, burst=1)


class PaceConformance(Ground):
    async def test_a_burst_is_followed_by_an_even_pace(self, store: Store) -> None:
        sent = limited(5, Limit("paced", 10, 4000, burst=2))
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        assert await self.start(worker, 2) == [item.job_id for item in sent[:2]]
        for item in sent[2:]:
            await worker.promote(QUEUE)
            await self.nothing_left(worker)
            await self.pass_time(0.402)
            await worker.promote(QUEUE)
            assert await self.start(worker) == [item.job_id]

    async def test_a_job_that_begins_again_keeps_to_the_pace(self, store: Store) -> None:
        (first, second) = limited(2, PACED)
        await store.append(QUEUE, [first])
        worker = self.worker(store)
        taken = await self.take(worker)
        assert await worker.begin(QUEUE, taken) == {}
        await self.settle(worker, taken, RELEASED)
        again = known(await worker.reclaim(QUEUE, 9, last_chance=True) or await worker.fetch(9, 0))
        assert await worker.begin(QUEUE, again) == {again[0]: "paced"}
        await self.settle(worker, again, RELEASED)
        await self.pass_time(1.01)
        again = known(await worker.reclaim(QUEUE, 9, last_chance=True) or await worker.fetch(9, 0))
        assert await worker.begin(QUEUE, again) == {}
        # Its second start takes a step of the pace from others too.
        await store.append(QUEUE, [second])
        assert (await self.snapshot(store, second.job_id)).reason == "paced"

    @pytest.mark.parametrize("how", ["ended", "cancelled", "held"])
    async def test_who_does_not_begin_takes_no_step_of_the_pace(
        self, store: Store, how: str
    ) -> None:
        first, second = sent = limited(2, PACED)
        await store.append(QUEUE, sent)
        assert (await self.snapshot(store, second.job_id)).reason == "paced"
        worker = self.worker(store)
        if how == "cancelled":
            await store.cancel(QUEUE, [first.job_id])
        else:
            await store.pause(QUEUE, "task")
            outcome = DEAD if how == "ended" else Held(task_gate("task"), HISTORY)
            await self.settle(worker, await self.take(worker), outcome)
        await worker.promote(QUEUE)
        assert await self.start(worker) == [second.job_id]
