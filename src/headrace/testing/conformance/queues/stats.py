"""Counts by task and minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from headrace.core.job.constraints import Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, Cancelled, Outcome, Retried
from headrace.core.job.parcel import Child
from headrace.core.job.state import State
from headrace.core.job.tally import BUCKETS_US, kind_of
from headrace.store.contract import Settlement, Store
from headrace.testing.conformance.ground import HISTORY, QUEUE, Ground, parcel
from headrace.testing.conformance.jobs.settlement import DEAD


def ran(deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
    """The deliveries, as if each had run for a millisecond."""
    for delivery in deliveries:
        delivery.started_ms, delivery.took_us = 1000, 1000
    return list(deliveries)


class StatsConformance(Ground):
    async def counted(self, store: Store, queue: str = QUEUE) -> Counter[tuple[str, str]]:
        minute = await store.time_ms() // 60_000
        found: Counter[tuple[str, str]] = Counter()
        for each in (await store.stats([queue], minute - 5))[queue]:
            assert minute - 5 <= each.minute <= minute + 1
            found[each.task, each.kind] += each.count
        return found

    async def test_nothing_was_counted_in_an_empty_queue(self, store: Store) -> None:
        assert await store.stats([QUEUE], 0) == {QUEUE: []}
        assert await store.stats([], 0) == {}

    async def test_facts_are_counted_by_task_and_minute(self, store: Store) -> None:
        await store.append(
            QUEUE, [parcel(task=task) for task in ("one", "two words", "one", "one")]
        )
        worker = self.worker(store)
        taken = await self.take(worker, 4)
        await self.settle(worker, taken[:1], DONE)
        await self.settle(worker, taken[1:2], DEAD)
        later: list[Outcome] = [Retried(60_000, HISTORY), Retried(5, HISTORY, deferred=True)]
        both = zip(taken[2:], later, strict=True)
        await worker.settle(QUEUE, [Settlement(*each) for each in both])
        assert await self.counted(store) == {
            ("one", "sent"): 3,
            ("two words", "sent"): 1,
            ("one", "done"): 1,
            ("two words", "dead"): 1,
            ("one", "retry"): 1,
            ("one", "deferred"): 1,
        }
        minute = await store.time_ms() // 60_000
        assert await store.stats([QUEUE], minute + 2) == {QUEUE: []}

    async def test_many_queues_are_counted_at_once_and_each_by_itself(self, store: Store) -> None:
        queues = [f"queue-{number}" for number in range(7)]
        for number in (1, 6):
            await self.send(store, number, queues[number])
        found = await store.stats(queues, 0)
        assert list(found) == queues
        sent = {queue: [each.count for each in counts] for queue, counts in found.items() if counts}
        assert sent == {"queue-1": [1], "queue-6": [6]}

    async def test_runs_are_counted_by_how_long_they_took(self, store: Store) -> None:
        first, second, third = BUCKETS_US[:3]
        took = [1, first, first + 1, second, third, 10 * BUCKETS_US[-1]]
        await self.send(store, len(took))
        worker = self.worker(store)
        for delivery, micros in zip(await self.take(worker, len(took)), took, strict=True):
            delivery.started_ms, delivery.took_us = 1000, micros
            await self.settle(worker, [delivery], DONE)
        found = await self.counted(store)
        assert {kind: count for (_, kind), count in found.items() if kind.startswith("<")} == {
            f"<{first}": 2,
            f"<{second}": 2,
            f"<{third}": 1,
            f"<{BUCKETS_US[-1]}": 1,
        }

    async def test_runs_are_counted_by_how_long_they_had_waited(self, store: Store) -> None:
        first, second, third, *_, last = BUCKETS_US
        waited_ms = [-5, 0, 1, 2, 4, 2 * last // 1000]
        await self.send(store, len(waited_ms) + 1)
        worker = self.worker(store)
        taken = await self.take(worker, len(waited_ms) + 1)
        for delivery, waited in zip(taken, waited_ms, strict=False):
            delivery.started_ms, delivery.took_us = worker.ready_ms(delivery) + waited, 1
        # The last one was not started.
        await self.settle(worker, taken, DONE)
        found = {kind: count for (_, kind), count in (await self.counted(store)).items()}
        assert {kind: count for kind, count in found.items() if kind.startswith("~")} == {
            f"~{first}": 3,
            f"~{second}": 1,
            f"~{third}": 1,
            f"~{last}": 1,
        }
        assert found["wait_us"] == 7000 + 2 * last
        assert (found["run_us"], found[f"<{first}"]) == (6, 6)

    @pytest.mark.parametrize("outcome", [DONE, Retried(60_000, HISTORY)], ids=["done", "retried"])
    async def test_what_is_settled_twice_is_counted_once(
        self, store: Store, outcome: Outcome
    ) -> None:
        await self.send(store, 5)
        worker = self.worker(store)
        taken = ran(await self.take(worker, 5))
        settlements = [Settlement(delivery, outcome) for delivery in taken]
        await worker.settle(QUEUE, settlements)
        first = await self.counted(store)
        assert (first["task", "run_us"], first["task", f"<{BUCKETS_US[0]}"]) == (5000, 5)
        assert await worker.settle(QUEUE, settlements, repeat=True) == taken
        assert await self.counted(store) == first

    @pytest.mark.parametrize("outcome", [DONE, Retried(60_000, HISTORY)], ids=["done", "retried"])
    async def test_what_was_lost_is_not_counted_and_the_others_are(
        self, store: Store, outcome: Outcome
    ) -> None:
        await self.send(store, 3)
        late, other = self.worker(store), self.worker(store, "second")
        lost = ran(await self.take(late, 2))
        await self.reclaim(other, 2)
        held = ran(await self.take(late))
        settlements = [Settlement(delivery, outcome) for delivery in (lost[0], *held, lost[1])]
        assert await late.settle(QUEUE, settlements) == lost
        counted = await self.counted(store)
        assert counted["task", kind_of(outcome)] == 1
        assert (counted["task", "run_us"], counted["task", f"<{BUCKETS_US[0]}"]) == (1000, 1)

    async def test_what_was_not_added_is_not_counted(self, store: Store) -> None:
        item, unique = parcel("known"), Constraints(unique="one")
        await store.append(QUEUE, [item])
        await store.append(QUEUE, [item], may_exist=True)
        await store.append(QUEUE, [parcel(constraints=unique), parcel(constraints=unique)])
        assert await self.counted(store) == {("task", "sent"): 2}

    async def test_what_takes_effect_instead_of_an_outcome_is_counted(self, store: Store) -> None:
        """Nobody has cancelled this job, so it is handed back."""
        await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), Cancelled())
        counted = await self.counted(store)
        assert (counted["task", "cancelled"], counted["task", "released"]) == (0, 1)

    async def test_a_replay_is_counted(self, store: Store) -> None:
        (key,) = await self.send(store)
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        await store.replay(QUEUE, [key, key])
        assert await self.counted(store) == {
            ("task", "sent"): 1,
            ("task", "dead"): 1,
            ("task", "replayed"): 1,
        }

    async def test_what_the_store_ends_is_counted(self, store: Store) -> None:
        child = parcel("child", parents=[parcel("parent")])
        parent = parcel("parent", children=[Child(QUEUE, child.job_id)])
        await store.append(QUEUE, [child, parent])
        (other,) = await self.send(store)
        assert await store.cancel(QUEUE, [other]) == [State.CANCELLED]
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DEAD)
        found = await self.counted(store)
        assert found["task", "cancelled"] == 1
        assert found["task", "dead"] == 2
