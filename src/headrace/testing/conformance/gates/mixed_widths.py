"""Jobs of one lane with different widths, through all transitions."""

from __future__ import annotations

import random

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, known, parcel
from headrace.testing.conformance.jobs.settlement import DEAD

_STEPS = 60
_OUTCOMES: list[Outcome] = [DONE, DONE, Retried(0, HISTORY), Retried(2, HISTORY), DEAD, RELEASED]


class _Mixture:
    """One lane, with random transitions of its jobs."""

    def __init__(self, ground: Ground, store: Store, worker: StoreConsumer, seed: int) -> None:
        self.ground = ground
        self.store = store
        self.worker = worker
        self.chance = random.Random(seed)
        self.widths: dict[JobId, int] = {}
        self.running: list[LeasedDelivery] = []

    async def step(self) -> None:
        await self.chance.choice([self.send, self.send, self.settle, self.settle, self.people])()
        await self.run()

    async def send(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            width = self.chance.choice([1, 2, 3, 5])
            delay_ms = self.chance.choice([None, None, 2])
            job = parcel(constraints=Constraints(lane="mixed", width=width), delay_ms=delay_ms)
            self.widths[job.job_id] = width
            await self.store.append(QUEUE, [job])

    async def settle(self) -> None:
        self.chance.shuffle(self.running)
        count = self.chance.randint(0, len(self.running))
        ending, self.running = self.running[:count], self.running[count:]
        outcome = self.chance.choice(_OUTCOMES)
        assert await self.ground.settle(self.worker, ending, outcome) == []

    async def people(self) -> None:
        keys = self.chance.sample(list(self.widths), min(3, len(self.widths)))
        if self.chance.random() < 0.5:
            await self.store.replay(QUEUE, keys)
        else:
            await self.store.cancel(QUEUE, keys, running=False)

    async def run(self) -> None:
        """Take what may run: never more than the narrowest job allows."""
        await self.ground.pass_time(0.003)
        await self.worker.promote(QUEUE)
        self.running += known(await self.worker.reclaim(QUEUE, 9, last_chance=True))
        self.running += known(await self.worker.fetch(9, 0))
        widths = [self.widths[each.job_id] for each in self.running]
        assert len(widths) <= min(widths, default=0), widths

    async def end(self) -> None:
        """Settle all as done: none waits for ever."""
        for _ in range(10 * len(self.widths) + 10):
            await self.run()
            ending, self.running = self.running, []
            await self.ground.settle(self.worker, ending, DONE)
            counts = await self.store.count(QUEUE)
            if not counts.waiting + counts.blocked + counts.scheduled + counts.running:
                return
        raise AssertionError(f"nobody runs what is left: {counts}")


class MixedWidthsConformance(Ground):
    @pytest.mark.parametrize("seed", range(4))
    async def test_a_lane_never_holds_more_than_the_narrowest_in_it_allows(
        self, store: Store, seed: int
    ) -> None:
        # A lease so long that no job looks abandoned, however slow the machine is.
        mixture = _Mixture(self, store, self.worker(store, lease=600), seed)
        for _ in range(_STEPS):
            await mixture.step()
        await mixture.end()
        states = await self.states(store, list(mixture.widths))
        assert {*states} <= {None, State.DONE, State.DEAD, State.CANCELLED}
