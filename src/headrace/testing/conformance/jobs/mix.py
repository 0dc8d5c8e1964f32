"""Everything at once, in a random order by seed."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from headrace.core.job.constraints import (
    QUEUE_LIMIT,
    Constraints,
    Gathering,
    Limit,
    decode_constraints,
)
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Held, Outcome, Retried, task_gate
from headrace.core.job.parcel import Child, Parcel
from headrace.store.contract import JobSnapshot, Store, StoreConsumer, reclaim_every
from headrace.testing.conformance.ground import HISTORY, LEASE, QUEUE, kept, known, parcel
from headrace.testing.conformance.jobs.leftovers import BRIEF, QUEUES, LeftoversConformance
from headrace.testing.conformance.jobs.settlement import DEAD

TASKS = ("one", "other")
LANES = {"a": 1, "b": 1, "c": 2, "task": 3}
TASK_LANES = ("", "task", "c")
LIMITS = (Limit(QUEUE_LIMIT, 6, 60), Limit("narrow", 2, 40), Limit("paced", 4, 60, burst=1))
BATCHES = (Gathering("batch:x", 3, 40), Gathering("batch:y", 9, 60, 20))
STEPS = 100


def lanes_of(delivery: LeasedDelivery) -> list[str]:
    constraints = decode_constraints(delivery.constraints)
    return [lane for lane in (constraints.lane, constraints.task_lane) if lane]


class Mix:
    """Random steps on one store, and what must hold after each."""

    def __init__(self, ground: MixConformance, store: Store, seed: int) -> None:
        self.ground = ground
        self.store = store
        self.chance = Random(seed)
        self.worker = ground.worker(store, queues=QUEUES)
        self.sent: list[tuple[str, JobId]] = []
        self.running: list[LeasedDelivery] = []
        self.begun: dict[str, list[int]] = {limit.name: [] for limit in LIMITS}

    async def step(self) -> None:
        act = self.chance.choices(
            [self.send, self.take, self.settle, self.cancel, self.halt, self.go_on, self.leave],
            [4, 6, 6, 1, 1, 4, 0.3],
        )[0]
        await act()

    def constraints(self, *, may_stand: bool) -> Constraints:
        lane = self.chance.choice(["", "", *LANES])
        limits = tuple(limit for limit in LIMITS if self.chance.random() < 0.2)
        unique = self.chance.choice(["", "", "", "u", "v"]) if may_stand else ""
        task_lane = "" if lane in TASK_LANES[1:] else self.chance.choice(TASK_LANES)
        return Constraints(
            priority=self.chance.choice([0, 0, 0, 3, 9]),
            lane=lane,
            width=LANES.get(lane, 1),
            unique=unique,
            unique_for_ms=self.chance.choice([0, BRIEF]) if unique else 0,
            limits=limits,
            ttl_ms=BRIEF,
            task_lane=task_lane,
            task_width=LANES.get(task_lane, 1),
            gathering=self.chance.choice([None, *BATCHES]),
        )

    def job(self, parents: list[Parcel] | None = None) -> Parcel:
        delay = self.chance.choice([None, None, 5, 30])
        task = self.chance.choice(TASKS)
        # A child of a job that stands for itself would wait for ever.
        constraints = self.constraints(may_stand=parents is None)
        return parcel(constraints=constraints, delay_ms=delay, task=task, parents=parents or ())

    async def send(self) -> None:
        queue = self.chance.choice(QUEUES)
        parcels = [self.job() for _ in range(self.chance.randint(1, 4))]
        if self.chance.random() < 0.4:
            await self.send_flow(parcels)
        else:
            await self.append(queue, parcels)

    async def send_flow(self, parents: list[Parcel]) -> None:
        """A job that waits for the others, in any state."""
        there, last = self.chance.choice(QUEUES), self.job(parents)
        if await self.append(there, [last]):
            return
        for parent in parents:
            bond = Child(there, last.job_id, self.chance.random() < 0.5)
            linked = Parcel(
                parent.job_id,
                parent.envelope,
                parent.delay_ms,
                None,
                parent.constraints,
                (),
                (bond,),
            )
            await self.append(self.chance.choice(QUEUES), [linked])

    async def append(self, queue: str, parcels: list[Parcel]) -> dict[int, JobId]:
        stood_for = await self.store.append(queue, parcels)
        self.sent += [
            (queue, item.job_id) for at, item in enumerate(parcels) if at not in stood_for
        ]
        return stood_for

    async def take(self) -> None:
        for delivery in known(await self.worker.fetch(self.chance.randint(1, 6), 0)):
            control = await self.store.control(delivery.queue)
            if delivery.task in control.paused_tasks:
                await self.end(delivery, Held(task_gate(delivery.task), HISTORY))
            elif self.chance.random() < 0.1:
                # Never begun: it could not run, or its worker stops.
                await self.end(delivery, RELEASED if self.chance.random() < 0.5 else DEAD)
            elif gate := (await self.worker.begin(delivery.queue, [delivery])).get(delivery):
                await self.end(delivery, Held(gate, HISTORY))
            else:
                await self.note_start(delivery)
        for delivery in known(await self.worker.reclaim(QUEUES[0], 3, last_chance=True)):
            await self.end(delivery, Retried(0, HISTORY))

    async def note_start(self, delivery: LeasedDelivery) -> None:
        self.running.append(delivery)
        inside = Counter((each.queue, lane) for each in self.running for lane in lanes_of(each))
        assert all(count <= LANES[lane] for (_, lane), count in inside.items())
        if delivery.queue == QUEUE:
            now = await self.store.time_ms()
            for limit in decode_constraints(delivery.constraints).limits:
                self.begun[limit.name].append(now)

    async def settle(self) -> None:
        if self.running:
            delivery = self.running.pop(self.chance.randrange(len(self.running)))
            outcomes: list[Outcome] = [DONE, kept(seconds=0.1), DEAD, RELEASED]
            outcomes += [Retried(0, HISTORY), Retried(20, HISTORY)]
            await self.end(delivery, self.chance.choices(outcomes, [5, 5, 1, 1, 1, 2])[0])

    async def end(self, delivery: LeasedDelivery, outcome: Outcome) -> None:
        assert await self.ground.settle(self.worker, [delivery], outcome) == []

    async def cancel(self) -> None:
        if self.sent:
            queue, key = self.chance.choice(self.sent[-30:])
            await self.store.cancel(queue, [key])

    async def halt(self) -> None:
        change = self.chance.choice([self.store.pause, self.store.resume, self.store.resume])
        await change(self.chance.choice(QUEUES), self.chance.choice(["", *TASKS]))

    async def go_on(self) -> None:
        await self.ground.pass_time(self.chance.choice([0, 0.004, 0.02]))
        await self.ground.upkeep(self.store, self.worker, QUEUES)

    async def leave(self) -> None:
        """The worker stops while it holds jobs, and another begins."""
        await self.worker.close()
        self.running.clear()
        self.worker = self.ground.worker(self.store, queues=QUEUES)

    def crash(self) -> StoreConsumer:
        """The worker crashes."""
        crashed, self.worker = self.worker, self.ground.worker(self.store, queues=QUEUES)
        self.running.clear()
        return crashed

    async def finish(self) -> None:
        """Run everything that is left to its end."""
        for queue in QUEUES:
            for task in ("", *TASKS):
                await self.store.resume(queue, task)
        for _ in range(50):
            for delivery in self.running:
                await self.end(delivery, DONE)
            self.running = await self.ground.reclaimed(self.worker)
            await self.ground.run_all(self.store, self.worker, queues=QUEUES)
            if not self.running and await self.all_ended():
                return
            await self.ground.pass_time(reclaim_every(LEASE) * 1.1)
        raise AssertionError(f"not all has ended: {await self.left()}")

    async def all_ended(self) -> bool:
        return not await self.left()

    async def left(self) -> list[tuple[JobId, JobSnapshot]]:
        found: list[tuple[JobId, JobSnapshot]] = []
        for queue in QUEUES:
            keys = [key for where, key in self.sent if where == queue]
            for key, snapshot in zip(keys, await self.store.get(queue, keys), strict=True):
                if snapshot is not None and not snapshot.state.final:
                    found.append((key, snapshot))
        return found


class MixConformance(LeftoversConformance):
    async def reclaimed(self, worker: StoreConsumer) -> list[LeasedDelivery]:
        found: list[LeasedDelivery] = []
        for queue in QUEUES:
            found += known(await worker.reclaim(queue, 100, last_chance=True))
        return found

    @pytest.mark.parametrize("seed", range(2))
    async def test_whatever_happens_all_jobs_end_and_nothing_is_left(
        self, store: Store, seed: int
    ) -> None:
        mix = Mix(self, store, seed)
        for _ in range(STEPS):
            await mix.step()
        crashed = mix.crash()
        for _ in range(STEPS // 2):
            await mix.step()
        await mix.finish()
        for limit in LIMITS:
            begun = mix.begun[limit.name]
            pairs = zip(begun, begun[limit.most :], strict=False)
            assert all(later - first >= limit.window_ms - 5 for first, later in pairs)
        for queue in QUEUES:
            assert (await store.count(queue)).running == 0
            await self.purge_dead(store, queue)
        # Those that waited for purged jobs hear of it, in other queues too.
        await self.upkeep(store, mix.worker, QUEUES)
        await self.nothing_remains(store, mix.worker, crashed)
