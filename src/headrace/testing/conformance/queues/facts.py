"""Facts: complete and in order."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest

from headrace.core.job.constraints import Constraints, Limit
from headrace.core.job.outcome import DONE, RELEASED, Held, Retried, task_gate
from headrace.core.job.parcel import Child
from headrace.errors import ConfigError
from headrace.store.contract import Store
from headrace.store.values import Fact, RecordedFact
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, kept, known, parcel
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD


class FactsConformance(Ground):
    async def all_events(
        self, store: Store, after: str = "", limit: int = 1000, queue: str = QUEUE
    ) -> list[RecordedFact]:
        found: list[RecordedFact] = []
        while page := await store.events(queue, after, limit):
            found += page
            after = page[-1].cursor
        return found

    async def kinds(self, store: Store, key: bytes) -> list[str]:
        return [each.fact.kind for each in await self.all_events(store) if each.fact.job_id == key]

    async def test_nothing_happened_in_an_empty_queue(self, store: Store) -> None:
        assert await store.events(QUEUE) == []
        assert await store.events(QUEUE, wait=0.02) == []

    async def test_sending_is_a_fact(self, store: Store) -> None:
        before = await store.time_ms()
        now, later = parcel(task="one"), parcel(task="other", delay_ms=60_000)
        await store.append(QUEUE, [now, later])
        events = await self.all_events(store)
        facts = [(each.fact.kind, each.fact.job_id, each.fact.task) for each in events]
        assert facts == [("sent", now.job_id, "one"), ("scheduled", later.job_id, "other")]
        assert all(before <= each.at_ms <= before + 60_000 for each in events)

    async def test_a_job_that_is_known_already_is_no_fact(self, store: Store) -> None:
        first, second = parcel("known"), parcel("new")
        await store.append(QUEUE, [first])
        await store.append(QUEUE, [first, second], may_exist=True)
        unique = [parcel(constraints=Constraints(unique="one")) for _ in range(2)]
        await store.append(QUEUE, unique)
        twice = parcel("twice")
        await store.append(QUEUE, [twice, twice], may_exist=True)
        recorded = [each.fact.job_id for each in await self.all_events(store)]
        assert recorded == [first.job_id, second.job_id, unique[0].job_id, twice.job_id]

    async def test_a_run_is_told_with_its_times(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        (delivery,) = await self.take(worker)
        started = await store.time_ms()
        delivery.attempt, delivery.started_ms, delivery.took_us = 2, started, 1500
        await self.settle(worker, [delivery], kept())
        _, begun, done = [each.fact for each in await self.all_events(store)]
        assert (begun.kind, begun.job_id, begun.started_ms) == ("started", key, started)
        assert (done.kind, done.job_id, done.task) == ("done", key, "task")
        assert (done.attempt, done.started_ms, done.took_us) == (2, started, 1500)

    async def test_each_run_of_a_batch_is_told_with_its_own_times(self, store: Store) -> None:
        parcels = [
            parcel(f"a job whose id has {'many ' * at}words", task=f"task {at % 2}")
            for at in range(5)
        ]
        await store.append(QUEUE, [*parcels, parcel(task="task 0")])
        worker = self.worker(store)
        taken = await self.take(worker, 6)
        for at, delivery in enumerate(taken):
            delivery.task = f"task {at % 2}"
            delivery.attempt, delivery.started_ms, delivery.took_us = at + 1, 5000 - at, 10 * at + 1
        await self.settle(worker, taken, DONE)
        done = [each.fact for each in await self.all_events(store) if each.fact.kind == "done"]
        assert done == [
            Fact("done", delivery.job_id, f"task {at % 2}", at + 1, 5000 - at, 10 * at + 1)
            for at, delivery in enumerate(taken)
        ]

    async def test_every_transition_is_recorded(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await store.pause(QUEUE, "task")
        gate = task_gate("task")
        for outcome in (
            Retried(0, HISTORY),
            Retried(20, HISTORY, deferred=True),
            Held(gate, HISTORY),
            RELEASED,
            DEAD,
        ):
            taken = await self.take(worker)
            await self.settle(worker, taken, outcome)
            if isinstance(outcome, Held):
                await store.resume(QUEUE, "task")
            await self.pass_time(0.03)
            await worker.promote(QUEUE)
        await store.replay(QUEUE, [key])
        await self.end(store, worker, await self.take(worker), CANCELLED)
        recorded = await self.kinds(store, key)
        expected = [
            "sent", "retry", "deferred", "ready", "held", "ready", "released", "dead", "replayed",
            "cancelled",
        ]  # fmt: skip
        assert [kind for kind in recorded if kind != "ready"] == [
            kind for kind in expected if kind != "ready"
        ]
        assert recorded.count("ready") >= 2

    async def test_details_are_recorded(self, store: Store) -> None:
        await self.send(store, 4)
        worker = self.worker(store)
        await store.pause(QUEUE, "task")
        gate = task_gate("task")
        deferred = Retried(800, HISTORY, deferred=True)
        for outcome in (Retried(700, HISTORY), deferred, DEAD, Held(gate, HISTORY)):
            await self.settle(worker, await self.take(worker), outcome)
        details = {each.fact.kind: each.fact.detail for each in await self.all_events(store)}
        assert details == {
            "sent": "",
            "retry": "700",
            "deferred": "800",
            "dead": "rejected",
            "held": gate,
        }

    async def test_what_is_taken_over_is_recorded_and_what_is_handed_back_is_not(
        self, store: Store
    ) -> None:
        (key,) = await self.send(store)
        await self.take(self.worker(store))
        second = self.worker(store)
        await self.reclaim(second, 1)
        third = self.worker(store)
        (held,) = await self.reclaim(third, 1)
        await self.settle(third, [held], RELEASED)
        fourth = self.worker(store)
        taken = await fourth.reclaim(QUEUE, 1, last_chance=True) or await fourth.fetch(1, 0)
        await self.settle(fourth, known(taken), DONE)
        recorded = [each.fact for each in await self.all_events(store)]
        assert [each.kind for each in recorded] == [
            "sent", "stalled", "stalled", "released", "done",
        ]  # fmt: skip
        stalled = [each for each in recorded if each.kind == "stalled"]
        assert [(each.job_id, each.task) for each in stalled] == [(key, "task")] * 2
        assert [each.detail for each in stalled] == ["1", "2"]

    async def test_what_the_store_does_by_itself_is_recorded(self, store: Store) -> None:
        lane = [parcel(constraints=Constraints(lane="a")) for _ in range(2)]
        child = parcel("child", parents=[parcel("parent")])
        parent = parcel("parent", children=[Child(QUEUE, child.job_id)], delay_ms=60_000)
        limited = [
            parcel(constraints=Constraints(limits=(Limit("slow", 1, 60_000),))) for _ in range(2)
        ]
        await store.append(QUEUE, [child, parent, *lane, *limited])
        assert await self.kinds(store, child.job_id) == ["blocked"]
        assert await self.kinds(store, parent.job_id) == ["scheduled"]
        assert await self.kinds(store, limited[1].job_id) == ["blocked"]
        worker = self.worker(store)
        await store.cancel(QUEUE, [parent.job_id])
        await self.settle(worker, await self.take(worker), DONE)
        assert await self.kinds(store, lane[1].job_id) == ["blocked", "ready"]
        assert await self.kinds(store, parent.job_id) == ["scheduled", "cancelled"]
        assert await self.kinds(store, child.job_id) == ["blocked", "cancelled"]

    async def test_a_settlement_that_was_refused_is_no_fact(self, store: Store) -> None:
        first, second = await self.send(store, 2)
        late, other = self.worker(store), self.worker(store)
        lost = await self.take(late)
        await self.reclaim(other, 1)
        mine = await self.take(late)
        await self.settle(late, [*mine, *lost], kept())
        assert await self.kinds(store, first) == ["sent", "stalled"]
        assert await self.kinds(store, second) == ["sent", "done"]
        # And it wakes no caller that waits for the next one.
        cursor = (await self.all_events(store))[-1].cursor
        waiting = asyncio.create_task(store.events(QUEUE, cursor, wait=30))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await self.send(store)
        assert len(await asyncio.wait_for(waiting, 10)) == 1

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
    async def test_a_cursor_misses_nothing_and_repeats_nothing(
        self, store: Store, limit: int
    ) -> None:
        sent = [*await self.send(store, 5), *await self.send(store, 1)]
        worker = self.worker(store)
        taken = await self.take(worker, 6)
        for delivery in taken:
            delivery.started_ms, delivery.took_us, delivery.attempt = 1000, 10, 1
        await self.settle(worker, taken[:4], DONE)
        await self.settle(worker, taken[4:], DEAD)
        events = await self.all_events(store, limit=limit)
        recorded = Counter((each.fact.kind, each.fact.job_id) for each in events)
        assert set(recorded.values()) == {1}
        expected = Counter(kind for kind, _ in recorded)
        assert expected == {"sent": 6, "started": 6, "done": 4, "dead": 2}
        assert {key for _, key in recorded} == set(sent)
        # After any event come all later ones, and no others.
        for at, event in enumerate(events):
            rest = await self.all_events(store, event.cursor)
            facts = [each.fact for each in rest]
            assert facts[-len(events) + at + 1 :] == [each.fact for each in events[at + 1 :]]
            assert len(facts) - (len(events) - at - 1) in (0, 1), "the start of a run at most"

    async def test_one_may_begin_with_now(self, store: Store) -> None:
        before = await store.time_ms()
        for _ in range(2):
            (now,) = await store.events(QUEUE, "$")
            assert (now.fact.kind, now.fact.job_id) == ("lost", b"")
            assert before <= now.at_ms <= await store.time_ms()
            assert await store.events(QUEUE, now.cursor) == []
            (key,) = await self.send(store)
            (event,) = await store.events(QUEUE, now.cursor)
            assert event.fact.job_id == key

    @pytest.mark.parametrize("cursor", ["x", "1 2", "-", "1_2_3", "9" * 40, "1.x"])
    async def test_what_is_no_cursor_of_events_is_refused_by_name(
        self, store: Store, cursor: str
    ) -> None:
        await self.send(store)
        with pytest.raises(ConfigError, match=re.escape(repr(cursor))):
            await store.events(QUEUE, cursor)

    async def test_a_reader_may_wait_for_the_first(self, store: Store) -> None:
        for _ in range(2):
            (now,) = await store.events(QUEUE, "$")
            waiting = asyncio.create_task(store.events(QUEUE, now.cursor, wait=30))
            await asyncio.sleep(0.05)
            (key,) = await self.send(store)
            (event,) = await asyncio.wait_for(waiting, 10)
            assert (event.fact.kind, event.fact.job_id) == ("sent", key)

    async def test_each_queue_has_its_own(self, store: Store) -> None:
        await self.send(store, queue="other")
        assert await store.events(QUEUE) == []
        assert len(await store.events("other")) == 1

    async def test_thousands_of_facts_are_read(self, store: Store) -> None:
        sent = await self.send(store, 1000)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker, 1000), DONE)
        for key in sent[:300]:
            await store.append(QUEUE, [parcel(key.hex())])
        events = await self.all_events(store, limit=450)
        kinds = Counter(each.fact.kind for each in events)
        assert kinds == {"sent": 1300, "done": 1000}
