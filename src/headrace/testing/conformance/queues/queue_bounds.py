"""Queues that have a bound."""

from __future__ import annotations

import asyncio
from collections import Counter

from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, Dead, Retried
from headrace.core.job.parcel import Child, Parcel, Tick
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.contract import Store
from headrace.store.queue_values import NO_ROOM, QueueBound
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, ids_of, parcel

THREE = QueueBound(3)
TICK = Tick("hourly", 2000)
LAST_THREE = QueueBound(3, drops_oldest=True)


def sent(count: int) -> list[Parcel]:
    return [parcel() for _ in range(count)]


class QueueBoundsConformance(Ground):
    async def ended(self, store: Store, items: list[Parcel]) -> list[State]:
        """How these jobs have ended, by the verdicts on them."""
        found = await store.get(QUEUE, [item.job_id for item in items])
        return [decode_verdict(one.verdict).state for one in found if one and one.verdict]

    async def test_a_full_queue_refuses_jobs(self, store: Store) -> None:
        items = sent(5)
        refused = await store.append(QUEUE, items, bound=THREE)
        assert refused == {3: NO_ROOM, 4: NO_ROOM}
        assert await store.count(QUEUE) == Counts(waiting=3)
        assert await store.append(QUEUE, items[3:], bound=THREE) == {0: NO_ROOM, 1: NO_ROOM}
        assert await store.get(QUEUE, [items[3].job_id]) == [None]
        worker = self.worker(store)
        taken = await self.take(worker, 2)
        assert await store.append(QUEUE, sent(1), bound=THREE) == {0: NO_ROOM}, "2 are running"
        await self.settle(worker, taken, DONE)
        assert await store.append(QUEUE, items[3:], bound=THREE) == {}
        assert len(await self.run_all(store, worker)) == 3

    async def test_jobs_of_every_kind_count_once(self, store: Store) -> None:
        in_lane = Constraints(lane="a")
        child, worker = parcel("child"), self.worker(store)
        parent = parcel("parent", children=[Child(QUEUE, child.job_id)])
        items = [
            parcel("child", parents=[parent]), parent, parcel(delay_ms=20),
            parcel(constraints=in_lane), parcel(constraints=in_lane),
        ]  # fmt: skip
        five, six = QueueBound(5), QueueBound(6)
        assert await store.append(QUEUE, items, bound=five) == {}
        assert await store.append(QUEUE, sent(1), bound=five) == {0: NO_ROOM}
        await self.pass_time(0.03)
        assert (await worker.promote(QUEUE)).moved == 1
        (taken, *others) = await self.take(worker, 3)
        await self.settle(worker, [taken], Retried(60_000, HISTORY))
        await self.settle(worker, others[:1], Retried(0, HISTORY))
        assert await store.append(QUEUE, sent(2), bound=six) == {1: NO_ROOM}

    async def test_what_has_ended_does_not_count(self, store: Store) -> None:
        worker, items = self.worker(store), sent(3)
        await store.append(QUEUE, items, bound=THREE)
        await self.settle(worker, await self.take(worker), Dead("failed", HISTORY))
        await store.cancel(QUEUE, [items[2].job_id])
        assert await store.append(QUEUE, sent(3), bound=THREE) == {2: NO_ROOM}
        assert await store.count(QUEUE) == Counts(waiting=3, dead=1)

    async def test_a_job_that_is_there_needs_no_room(self, store: Store) -> None:
        named = parcel(constraints=Constraints(unique="u"))
        items = [*sent(2), named]
        await store.append(QUEUE, items, bound=THREE)
        other = parcel(constraints=Constraints(unique="u"))
        again = await store.append(QUEUE, [items[0], other], may_exist=True, bound=THREE)
        assert again == {0: items[0].job_id, 1: named.job_id}

    async def test_a_refused_job_leaves_nothing(self, store: Store) -> None:
        """Neither a name, nor a tick, nor a place in a lane, nor a child that waits for it."""
        worker = self.worker(store)
        items = sent(3)
        await store.append(QUEUE, items)
        constraints, child = Constraints(lane="a", unique="u"), parcel("child")
        awaited = parcel(constraints=constraints, children=[Child(QUEUE, child.job_id)])
        refused = [awaited, parcel(tick=TICK)]
        assert await store.append(QUEUE, refused, bound=THREE) == {0: NO_ROOM, 1: NO_ROOM}
        assert await self.run_all(store, worker) == [item.job_id for item in items]
        again = [parcel(constraints=constraints), parcel(tick=TICK)]
        assert await store.append(QUEUE, again, bound=THREE) == {}
        assert len(await self.run_all(store, worker)) == 2

    async def test_the_oldest_jobs_make_room(self, store: Store) -> None:
        items = sent(5)
        for item in items:
            assert await store.append(QUEUE, [item], bound=LAST_THREE) == {}
        assert await store.count(QUEUE) == Counts(waiting=3)
        assert await self.ended(store, items) == [State.CANCELLED] * 2
        assert await self.run_all(store, self.worker(store)) == [i.job_id for i in items[2:]]
        kinds = Counter(event.fact.kind for event in await store.events(QUEUE))
        assert kinds["sent"] == 5
        assert kinds["cancelled"] == 2
        counts = (await store.stats([QUEUE], 0))[QUEUE]
        assert sum(one.count for one in counts if one.kind == "sent") == 5

    async def test_of_many_new_jobs_the_last_ones_stay(self, store: Store) -> None:
        items = sent(7)
        assert await store.append(QUEUE, items, bound=LAST_THREE) == {}
        assert await self.run_all(store, self.worker(store)) == [i.job_id for i in items[4:]]

    async def test_jobs_of_a_flow_do_not_make_room_for_one_another(self, store: Store) -> None:
        flow = Constraints(flow="f")
        old = [parcel(), parcel(constraints=Constraints(flow="g", priority=9))]
        await store.append(QUEUE, old)
        first, later = ([parcel(constraints=flow) for _ in range(count)] for count in (2, 4))
        assert await store.append(QUEUE, first, bound=LAST_THREE) == {}
        refused = await store.append(QUEUE, [*later, parcel()], bound=LAST_THREE)
        assert refused == {1: NO_ROOM, 2: NO_ROOM, 3: NO_ROOM}
        assert await self.ended(store, [*old, *first, *later]) == [State.CANCELLED] * 3

    async def test_a_job_of_a_flow_that_was_handed_back_is_kept_for_it(self, store: Store) -> None:
        worker, flow = self.worker(store), Constraints(flow="f")
        items = [parcel(constraints=flow), parcel(constraints=flow), parcel()]
        await store.append(QUEUE, items)
        await self.take(worker, 3)
        await worker.close()
        new = [parcel(constraints=flow), parcel(constraints=flow)]
        assert await store.append(QUEUE, new, bound=LAST_THREE) == {1: NO_ROOM}
        assert await self.ended(store, items[2:]) == [State.CANCELLED]
        assert await store.count(QUEUE) == Counts(waiting=3)

    async def test_only_jobs_that_wait_for_a_worker_are_dropped(self, store: Store) -> None:
        worker = self.worker(store)
        await store.append(QUEUE, [parcel(), parcel(delay_ms=60_000)])
        await self.take(worker)
        first, second = sent(2)
        assert await store.append(QUEUE, [first], bound=LAST_THREE) == {}
        assert await store.append(QUEUE, [second], bound=LAST_THREE) == {}
        assert await self.ended(store, [first]) == [State.CANCELLED]
        assert await store.count(QUEUE) == Counts(waiting=1, running=1, scheduled=1)
        later = parcel(delay_ms=60_000)
        assert await store.append(QUEUE, [later], bound=LAST_THREE) == {}
        assert await store.append(QUEUE, sent(1), bound=LAST_THREE) == {0: NO_ROOM}

    async def test_a_low_priority_goes_first_and_then_the_oldest(self, store: Store) -> None:
        high = [parcel(constraints=Constraints(priority=5)) for _ in range(2)]
        low = [parcel(runner="thread"), parcel()]
        four = QueueBound(4, drops_oldest=True)
        await store.append(QUEUE, [high[0], low[0], low[1], high[1]])
        for gone in (low[0], low[1], high[0]):
            new = parcel(constraints=Constraints(priority=9))
            assert await store.append(QUEUE, [new], bound=four) == {}
            assert await self.ended(store, [gone]) == [State.CANCELLED]

    async def test_a_job_that_was_handed_back_is_the_oldest(self, store: Store) -> None:
        worker, items = self.worker(store), sent(3)
        await store.append(QUEUE, items)
        await self.take(worker, 2)
        await worker.close()
        assert await store.append(QUEUE, sent(1), bound=LAST_THREE) == {}
        assert await self.ended(store, items) == [State.CANCELLED]
        assert len(await self.ended(store, items[:1])) == 1

    async def test_a_dropped_job_frees_what_it_held(self, store: Store) -> None:
        constraints, worker = Constraints(lane="a", unique="u"), self.worker(store)
        child = parcel("child")
        first = parcel(constraints=constraints, children=[Child(QUEUE, child.job_id)])
        second = parcel(constraints=Constraints(lane="a"))
        await store.append(QUEUE, [parcel("child", parents=[first]), first, second])
        new = parcel(constraints=constraints)
        assert await store.append(QUEUE, [parcel()], bound=LAST_THREE) == {}
        assert await self.ended(store, [first, child]) == [State.CANCELLED] * 2
        assert await store.append(QUEUE, [new], bound=LAST_THREE) == {}
        ran = await self.run_all(store, worker)
        assert {second.job_id, new.job_id} < set(ran)

    async def test_many_senders_at_once_never_exceed_a_bound(self, store: Store) -> None:
        ten = QueueBound(10)
        answers = await asyncio.gather(
            *(store.append(QUEUE, sent(3), bound=ten) for _ in range(20))
        )
        assert sum(len(answer) for answer in answers) == 50
        assert await store.count(QUEUE) == Counts(waiting=10)
        worker = self.worker(store)
        assert len(set(ids_of(await self.take(worker, 10)))) == 10
