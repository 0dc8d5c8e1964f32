"""Starts of runs that go on: recorded once, and only while the run goes on."""

from __future__ import annotations

import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, RELEASED
from headrace.store.contract import RunStart, Store, StoreConsumer
from headrace.store.topics import Group
from headrace.store.values import IdempotencyKey, RecordedFact
from headrace.testing.conformance.ground import QUEUE
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    TASK,
    TopicGround,
    of_each_kind,
)


class StartsConformance(TopicGround):
    async def recorded(self, store: Store, queue: str = QUEUE) -> list[tuple[str, int]]:
        """Kinds and attempts of what is recorded of runs."""
        facts = [each.fact for each in await store.events(queue)]
        others = ("sent", "stalled")
        return [(fact.kind, fact.attempt) for fact in facts if fact.kind not in others]

    async def record(
        self,
        worker: StoreConsumer,
        *deliveries: LeasedDelivery,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        """Record a start of each, as the heartbeat does; the attempt is the delivery's number."""
        starts = [RunStart(each, each.task, each.count, 5000 + each.count) for each in deliveries]
        await worker.record_starts(deliveries[0].queue, starts, idempotency=idempotency)

    async def finish(self, worker: StoreConsumer, *deliveries: LeasedDelivery) -> None:
        """Settle runs whose start is recorded."""
        for each in deliveries:
            each.attempt, each.started_ms, each.took_us = each.count, 5000 + each.count, 7_000_000
            each.mark_start_recorded()
        assert await self.settle(worker, deliveries, DONE) == []

    async def test_the_start_of_a_run_is_recorded_while_it_goes_on(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        (delivery,) = await self.take(worker)
        await self.record(worker, delivery)
        started = (await store.events(QUEUE))[-1]
        assert (started.fact.kind, started.fact.job_id) == ("started", key)
        assert (started.fact.task, started.fact.attempt) == ("task", 1)
        assert (started.fact.started_ms, started.at_ms) == (5001, 5001)
        await self.finish(worker, delivery)
        assert await self.recorded(store) == [("started", 1), ("done", 1)]
        done = (await store.events(QUEUE))[-1]
        assert (done.fact.took_us, done.fact.started_ms) == (7_000_000, 0)
        assert done.at_ms > 5001

    async def test_runs_whose_start_is_recorded_end_together_with_others(
        self, store: Store
    ) -> None:
        long, short = await self.send(store, 2)
        worker = self.worker(store)
        deliveries = await self.take(worker, 2)
        await self.record(worker, deliveries[0])
        deliveries[1].attempt, deliveries[1].started_ms, deliveries[1].took_us = 1, 6000, 10
        await self.finish(worker, deliveries[0])
        await self.settle(worker, deliveries[1:], DONE)
        facts = [each.fact for each in await store.events(QUEUE)][2:]
        expected = [("started", long), ("done", long), ("started", short), ("done", short)]
        assert [(fact.kind, fact.job_id) for fact in facts] == expected

    async def test_nothing_is_recorded_of_a_run_that_has_ended(self, store: Store) -> None:
        await self.send(store, 2)
        worker = self.worker(store)
        first, second = await self.take(worker, 2)
        await self.settle(worker, [first], DONE)
        await self.record(worker, first)
        assert await self.recorded(store) == [("done", 0)]
        await self.record(worker, first, second)
        assert await self.recorded(store) == [("done", 0), ("started", 1)]
        await self.settle(worker, [second], RELEASED)
        await self.record(worker, second)
        assert await self.recorded(store) == [("done", 0), ("started", 1), ("released", 0)]

    async def test_nothing_is_recorded_of_a_run_that_lost_its_job(self, store: Store) -> None:
        await self.send(store)
        late, other = self.worker(store), self.worker(store)
        (lost,) = await self.take(late)
        await self.record(late, lost)
        (mine,) = await self.reclaim(other, 1)
        await self.record(late, lost)
        await self.record(other, lost)
        assert await self.recorded(store) == [("started", 1)]
        # Each delivery has its own: the first of them ended with its worker.
        await self.record(other, mine)
        await self.finish(other, mine)
        assert await self.recorded(store) == [("started", 1), ("started", 2), ("done", 2)]

    async def test_a_start_that_is_sent_again_is_recorded_once(self, store: Store) -> None:
        await self.send(store)
        worker, once = self.worker(store), IdempotencyKey()
        taken = await self.take(worker)
        for _ in range(2):
            await self.record(worker, *taken, idempotency=once)
        await self.finish(worker, *taken)
        await self.record(worker, *taken, idempotency=once)
        assert await self.recorded(store) == [("started", 1), ("done", 1)]

    async def test_nothing_is_recorded_of_a_queue_that_was_removed(self, store: Store) -> None:
        await self.send(store)
        worker = self.worker(store)
        taken = await self.take(worker)
        await store.remove(QUEUE, force=True)
        await self.record(worker, *taken)
        assert await store.events(QUEUE) == []

    @pytest.mark.parametrize("limit", [1, 2, 3, 1000])
    async def test_a_cursor_goes_on_after_a_start(self, store: Store, limit: int) -> None:
        await self.send(store, 4)
        worker = self.worker(store)
        taken = await self.take(worker, 4)
        await self.record(worker, *taken[:3])
        await self.finish(worker, *taken[:3])
        taken[3].attempt, taken[3].started_ms, taken[3].took_us = 1, 6000, 10
        await self.settle(worker, taken[3:], DONE)
        found: list[RecordedFact] = []
        while page := await store.events(QUEUE, found[-1].cursor if found else "", limit):
            found += page
        kinds = [each.fact.kind for each in found]
        assert kinds == ["sent"] * 4 + ["started"] * 3 + ["done"] * 3 + ["started", "done"]
        for at, event in enumerate(found[:-2]):
            rest = await store.events(QUEUE, event.cursor)
            assert [each.fact for each in rest] == [each.fact for each in found[at + 1 :]]

    @of_each_kind
    async def test_starts_of_events_are_recorded_in_their_group(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store, key="a")
        member = self.member(store)
        (delivery,) = await self.take(member)
        await self.record(member, delivery)
        started = (await store.events(BILLING))[-1].fact
        assert (started.kind, started.job_id, started.task) == ("started", sent, TASK)
        await self.finish(member, delivery)
        await self.record(member, delivery)
        assert await self.recorded(store, BILLING) == [("started", 1), ("done", 1)]
        assert await self.recorded(store, AUDIT) == []
