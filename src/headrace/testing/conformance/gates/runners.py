"""Jobs wait by where they run, and a worker takes what it has room for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from headrace.core.job.capacity import RUNNERS, Capacity, Runner
from headrace.core.job.constraints import Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import runner_of
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer, reclaim_every
from headrace.testing.conformance.ground import LEASE, QUEUE, Ground, ids_of, known, parcel


class RunnersConformance(Ground):
    async def send_each(
        self, store: Store, count: int, *, queue: str = QUEUE
    ) -> dict[Runner, list[JobId]]:
        """Send jobs of each runner, in turn."""
        sent = [parcel(runner=runner) for _ in range(count) for runner in RUNNERS]
        assert await store.append(queue, sent) == {}
        return {
            runner: [item.job_id for item in sent if runner_of(item.envelope) == runner]
            for runner in RUNNERS
        }

    async def take_all(
        self, worker: StoreConsumer, limit: int, capacity: Capacity
    ) -> list[LeasedDelivery]:
        """Ask until nothing comes any more, each time for what there is still room for."""
        taken: list[LeasedDelivery] = []
        while True:
            came = counted(taken)
            left = Capacity(*(capacity.of(runner) - came[runner] for runner in RUNNERS))
            room = min(limit - len(taken), left.total)
            found = known(await worker.fetch(room, 0, left)) if room else []
            assert len(found) <= room
            assert all(counted(found)[runner] <= max(0, left.of(runner)) for runner in RUNNERS)
            taken += found
            if not found:
                return taken

    async def warm_up(self, store: Store, worker: StoreConsumer, queue: str = QUEUE) -> None:
        """Have the worker know that jobs of each runner come."""
        await self.send_each(store, 1, queue=queue)
        await self.settle(worker, await self.take(worker, 3), DONE)

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    @pytest.mark.parametrize(
        "capacity", [(4, 2, 1), (0, 3, 0), (1, 0, 5), (50, 50, 50), (-3, 2, -1)]
    )
    async def test_no_more_of_a_runner_comes_than_there_is_room_for(
        self, store: Store, limit: int, capacity: tuple[int, int, int]
    ) -> None:
        sent = await self.send_each(store, 8)
        room = Capacity(*capacity)
        taken = await self.take_all(self.worker(store), limit, room)
        assert len(taken) == min(limit, sum(max(0, min(each, 8)) for each in capacity))
        for runner in RUNNERS:
            mine = [each.job_id for each in taken if runner_of(each.envelope) == runner]
            assert mine == sent[runner][: len(mine)]

    async def test_without_a_capacity_any_job_comes(self, store: Store) -> None:
        sent = await self.send_each(store, 3)
        taken = await self.take(self.worker(store), 9)
        for runner in RUNNERS:
            mine = [each.job_id for each in taken if runner_of(each.envelope) == runner]
            assert mine == sent[runner]

    async def test_jobs_of_a_runner_without_room_wait_in_order_while_others_go_on(
        self, store: Store
    ) -> None:
        worker = self.worker(store)
        sent = await self.send_each(store, 4)
        for expected in sent["loop"]:
            (delivery,) = known(await worker.fetch(1, 0, Capacity(5, 0, 0)))
            assert delivery.job_id == expected
            await self.settle(worker, [delivery], DONE)
        assert await worker.fetch(5, 0, Capacity(5, 0, 0)) == []
        waiting = [State.WAITING] * 4
        assert await self.states(store, sent["thread"]) == waiting
        assert await self.states(store, sent["process"]) == waiting
        assert (await store.count(QUEUE)).waiting == 8
        taken = await self.take_all(worker, 100, Capacity(0, 4, 0))
        assert ids_of(taken) == sent["thread"]
        assert ids_of(await self.take_all(worker, 100, Capacity(0, 0, 4))) == sent["process"]

    @pytest.mark.parametrize("runner", RUNNERS)
    async def test_the_highest_priority_of_a_runner_comes_first(
        self, store: Store, runner: Runner
    ) -> None:
        numbers = [0, 7, 100, 7, 1, 0]
        sent = [parcel(constraints=Constraints(priority=n), runner=runner) for n in numbers]
        others: list[Runner] = [other for other in RUNNERS if other != runner]
        await store.append(
            QUEUE,
            [*sent, *(parcel(constraints=Constraints(priority=50), runner=o) for o in others)],
        )
        worker, only = self.worker(store), _only(runner, 10)
        expected = [
            item.job_id
            for number in sorted(set(numbers), reverse=True)
            for item in sent
            if item.constraints.priority == number
        ]
        first = known(await worker.fetch(2, 0, only))
        assert ids_of([*first, *known(await worker.fetch(10, 0, only))]) == expected
        assert (await store.count(QUEUE)).waiting == 2

    async def test_no_runner_starves_however_little_is_asked_for(self, store: Store) -> None:
        await self.send_each(store, 30)
        worker = self.worker(store)
        came: Counter[Runner] = Counter()
        for _ in range(45):
            came.update(counted(await worker.fetch(1, 0, Capacity(5, 5, 5))))
        assert min(came[runner] for runner in RUNNERS) >= 5

    @pytest.mark.parametrize("runner", RUNNERS)
    async def test_a_wait_is_ended_by_a_job_for_which_there_is_room_and_by_no_other(
        self, store: Store, runner: Runner
    ) -> None:
        worker = self.worker(store)
        await self.warm_up(store, worker)
        waiting = asyncio.create_task(worker.fetch(5, 60, _only(runner, 2)))
        others = [parcel(runner=other) for other in RUNNERS if other != runner]
        await store.append(QUEUE, others)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        mine = parcel(runner=runner)
        await store.append(QUEUE, [mine])
        assert ids_of(known(await asyncio.wait_for(waiting, 30))) == [mine.job_id]
        states = await self.states(store, [other.job_id for other in others])
        assert states == [State.WAITING] * 2

    async def test_a_wait_without_any_room_ends_when_it_is_interrupted(self, store: Store) -> None:
        worker = self.worker(store)
        await self.send_each(store, 1)
        waiting = asyncio.create_task(worker.fetch(5, 60, Capacity(0, 0, 0)))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await worker.interrupt()
        assert await asyncio.wait_for(waiting, 30) == []
        assert (await store.count(QUEUE)).waiting == 3

    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("weights", [(1, 1, 1), (3, 1, 1)])
    async def test_the_capacity_is_for_all_queues_together(
        self, store: Store, weights: tuple[int, int, int], strict: bool
    ) -> None:
        queues = dict(zip(("a", "b", "c"), weights, strict=True))
        for queue in queues:
            await self.send_each(store, 5, queue=queue)
        worker = self.worker(store, queues=queues, strict=strict)
        taken = await self.take_all(worker, 100, Capacity(4, 2, 1))
        assert counted(taken) == {"loop": 4, "thread": 2, "process": 1}

    async def test_a_wait_at_several_queues_keeps_to_the_capacity(self, store: Store) -> None:
        queues = ["a", "b", "c"]
        worker = self.worker(store, queues=queues)
        for queue in queues:
            await self.send_each(store, 1, queue=queue)
        taken = await self.take(worker, 9)
        for queue in queues:
            mine = [each for each in taken if each.queue == queue]
            await self.settle(worker, mine, DONE)
        waiting = asyncio.create_task(worker.fetch(9, 60, Capacity(1, 1, 1)))
        await asyncio.sleep(0.1)
        for queue in queues:
            await self.send_each(store, 2, queue=queue)
        found = await asyncio.wait_for(waiting, 30)
        assert found
        assert all(counted(found)[runner] <= 1 for runner in RUNNERS)
        total = sum([(await store.count(queue)).waiting for queue in queues])
        assert total == 18 - len(found)

    async def test_abandoned_jobs_are_taken_over_by_capacity(self, store: Store) -> None:
        sent = await self.send_each(store, 3)
        await self.take(self.worker(store), 9)
        other = self.worker(store)
        found = await self.reclaim_by(other, Capacity(3, 1, 0), 4)
        assert counted(found) == {"loop": 3, "thread": 1}
        assert set(ids_of(found)) <= {*sent["loop"], *sent["thread"]}
        rest = await self.reclaim_by(other, Capacity(0, 5, 5), 5)
        assert counted(rest) == {"thread": 2, "process": 3}
        assert await self.settle(other, [*found, *rest], DONE) == []
        assert (await store.count(QUEUE)).running == 0

    async def reclaim_by(
        self, worker: StoreConsumer, capacity: Capacity, count: int
    ) -> list[LeasedDelivery]:
        """Reclaim at intervals until this many were taken over."""
        taken: list[LeasedDelivery] = []
        for _ in range(60):
            came = counted(taken)
            left = Capacity(*(capacity.of(runner) - came[runner] for runner in RUNNERS))
            found = await worker.reclaim(QUEUE, 100, last_chance=True, capacity=left)
            assert all(counted(found)[runner] <= left.of(runner) for runner in RUNNERS)
            taken += known(found)
            if len(taken) >= count:
                return taken
            await self.pass_time(reclaim_every(LEASE) * 1.1)
        raise AssertionError(f"{len(taken)} jobs were taken over instead of {count}")

    async def test_bytes_that_name_no_runner_are_for_the_loop(self, store: Store) -> None:
        odd = [parcel(), parcel(), parcel()]
        sent = [
            Parcel(item.job_id, head + item.envelope[2:])
            for item, head in zip(odd, (b"\x94\x00", b"\x94\x04", b"\x94\x7f"), strict=True)
        ]
        await store.append(QUEUE, sent)
        worker = self.worker(store)
        assert await worker.fetch(5, 0, Capacity(0, 5, 5)) == []
        found = await worker.fetch(5, 0, Capacity(5, 0, 0))
        assert [each.envelope for each in found] == [item.envelope for item in sent]


def counted(deliveries: Sequence[LeasedDelivery]) -> Counter[Runner]:
    return Counter(runner_of(delivery.envelope) for delivery in deliveries)


def _only(runner: Runner, count: int) -> Capacity:
    return Capacity(*(count if each == runner else 0 for each in RUNNERS))
