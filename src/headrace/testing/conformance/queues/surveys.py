"""The state of many queues at once: counts, pauses, and how long jobs have waited."""

from __future__ import annotations

from headrace.core.job.capacity import RUNNERS, Capacity, Runner
from headrace.core.job.constraints import Constraints
from headrace.core.job.outcome import DONE, RELEASED, Outcome
from headrace.store.contract import Store
from headrace.store.topics import Group
from headrace.store.values import Counts, QueueState
from headrace.testing.conformance.ground import QUEUE, kept, known, parcel
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    TopicGround,
    event,
    of_each_kind,
)

OTHER = "other"
NOBODY = [f"never-{number}" for number in range(250)]
"""Queues that were never sent to; more than a store reads in one step."""
MINUTE_MS = 60_000


class SurveysConformance(TopicGround):
    async def waits_since(self, store: Store, queue: str = QUEUE) -> int | None:
        (state,) = await store.survey([queue])
        assert state.counts == await store.count(queue)
        assert (state.oldest_ms is None) is (state.counts.waiting == 0)
        of_runners = state.runners.values()
        assert sum(each.waiting for each in of_runners) == state.counts.waiting
        assert sum(each.running for each in of_runners) == state.counts.running
        since = [each.oldest_ms for each in of_runners if each.oldest_ms is not None]
        assert min(since, default=None) == state.oldest_ms
        return state.oldest_ms

    async def test_many_queues_are_surveyed_at_once_in_the_order_asked_for(
        self, store: Store
    ) -> None:
        await self.join(store, BILLING, AUDIT)
        await self.publish(store, 2)
        await self.send(store, 3)
        await store.append(
            OTHER, [parcel(delay_ms=MINUTE_MS), parcel(constraints=Constraints(lane="a"))]
        )
        await store.append(OTHER, [parcel(constraints=Constraints(lane="a"))])
        worker, member = self.worker(store), self.member(store)
        await self.settle(worker, (await self.take(worker, 2))[:1], DEAD)
        await self.settle(member, await self.take(member), DONE)
        found = await store.survey([OTHER, *NOBODY, QUEUE, BILLING, AUDIT, QUEUE])
        assert [state.counts for state in found] == [
            Counts(waiting=1, scheduled=1, blocked=1),
            *[Counts()] * len(NOBODY),
            Counts(waiting=1, running=1, dead=1),
            Counts(waiting=1),
            Counts(waiting=2),
            Counts(waiting=1, running=1, dead=1),
        ]
        assert found[1:-4] == [QueueState()] * len(NOBODY)
        assert await store.survey([]) == []

    async def test_a_survey_tells_what_is_paused(self, store: Store) -> None:
        await store.pause(QUEUE)
        await store.pause(OTHER, "one")
        await store.pause(OTHER, "two")
        await self.join(store)
        await store.pause(BILLING)
        assert await store.survey([QUEUE, OTHER, BILLING, AUDIT]) == [
            QueueState(paused=True),
            QueueState(paused_tasks=frozenset(["one", "two"])),
            QueueState(paused=True),
            QueueState(),
        ]
        await store.resume(QUEUE)
        assert await store.survey([QUEUE]) == [QueueState()]

    async def test_the_oldest_job_is_the_one_that_waits_longest(self, store: Store) -> None:
        times = [await store.time_ms()]
        for _ in range(2):
            await self.send(store)
            times.append(await store.time_ms())
            await self.pass_time(0.005)
        worker, oldest = self.worker(store), await self.waits_since(store)
        assert oldest is not None
        assert times[0] <= oldest <= times[1]
        (delivery,) = await self.take(worker)
        assert worker.ready_ms(delivery) == oldest
        left = await self.waits_since(store)
        assert left is not None
        assert times[1] + 5 <= left <= times[2]
        await self.take(worker)
        assert await self.waits_since(store) is None

    async def test_a_job_that_others_overtake_is_the_oldest(self, store: Store) -> None:
        await store.append(QUEUE, [parcel(constraints=Constraints(priority=1))])
        first = await self.waits_since(store)
        await self.pass_time(0.005)
        await store.append(QUEUE, [parcel(constraints=Constraints(priority=9)), parcel()])
        assert await self.waits_since(store) == first
        worker = self.worker(store)
        await self.settle(worker, await self.take(worker), DONE)
        assert await self.waits_since(store) == first
        (delivery,) = await self.take(worker)
        assert worker.ready_ms(delivery) == first
        later = await self.waits_since(store)
        assert later is not None
        assert first is not None
        assert later >= first + 5

    async def test_it_is_known_of_each_runner_what_waits_and_for_how_long(
        self, store: Store
    ) -> None:
        times: dict[Runner, int] = {}
        for count, runner in enumerate(reversed(RUNNERS), start=1):
            await store.append(QUEUE, [parcel(runner=runner) for _ in range(count)])
            high = Constraints(priority=9)
            await store.append(QUEUE, [parcel(constraints=high, runner=runner)])
            times[runner] = await store.time_ms()
            await self.pass_time(0.005)
        first = await self.waits_since(store)
        (state,) = await store.survey([QUEUE])
        waiting = {runner: found.waiting for runner, found in state.runners.items()}
        assert waiting == {"process": 2, "thread": 3, "loop": 4}
        since = {runner: found.oldest_ms for runner, found in state.runners.items()}
        assert since["process"] == first
        assert first is not None
        assert all(first <= (since[runner] or 0) <= times[runner] for runner in RUNNERS)
        assert (since["thread"] or 0) >= times["process"] + 5
        assert (since["loop"] or 0) >= times["thread"] + 5
        worker = self.worker(store)
        taken = known(await worker.fetch(9, 0, Capacity(1, 0, 2)))
        while len(taken) < 3:
            taken += known(await worker.fetch(9, 0, Capacity(0, 0, 3 - len(taken))))
        assert await self.waits_since(store) == since["thread"]
        (state,) = await store.survey([QUEUE])
        running = {runner: found.running for runner, found in state.runners.items()}
        assert running == {"process": 2, "loop": 1, "thread": 0}
        assert state.runners["process"].oldest_ms is None
        await self.settle(worker, taken, RELEASED)
        assert await self.waits_since(store) is not None
        (state,) = await store.survey([QUEUE])
        assert {found.running for found in state.runners.values()} == {0}

    async def test_a_job_waits_from_when_it_is_due(self, store: Store) -> None:
        await store.append(QUEUE, [parcel(delay_ms=20)])
        due = await store.time_ms() + 19
        assert await self.waits_since(store) is None
        worker = self.worker(store)
        await self.pass_time(0.025)
        assert (await worker.promote(QUEUE)).moved == 1
        oldest = await self.waits_since(store)
        assert oldest is not None
        assert oldest >= due - 5
        assert worker.ready_ms((await self.take(worker))[0]) == oldest

    async def test_a_job_that_is_handed_back_waits_again(self, store: Store) -> None:
        for constraints in (Constraints(), Constraints(priority=9)):
            began = await store.time_ms()
            await store.append(QUEUE, [parcel(constraints=constraints)])
            worker = self.worker(store)
            await self.settle(worker, await self.take(worker), RELEASED)
            oldest = await self.waits_since(store)
            assert oldest is not None
            assert began <= oldest <= await store.time_ms()
            taken = known(await worker.reclaim(QUEUE, 1, last_chance=True))
            taken = taken or await self.take(worker)
            assert await self.waits_since(store) is None
            await self.settle(worker, taken, DONE)

    @of_each_kind
    async def test_the_oldest_event_is_told_for_each_group(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        assert await self.waits_since(store, BILLING) is None
        times = [await store.time_ms()]
        for key in "ab":
            await self.publish(store, key=key)
            times.append(await store.time_ms())
            await self.pass_time(0.005)
        member, first = self.member(store), await self.waits_since(store, BILLING)
        assert first is not None
        assert times[0] <= first <= times[1]
        (delivery,) = await self.take(member)
        assert times[0] <= member.ready_ms(delivery) <= await store.time_ms()
        left = await self.waits_since(store, BILLING)
        assert left is not None
        assert left >= times[1]
        assert await self.waits_since(store, AUDIT) == first
        await self.take(member)
        assert await self.waits_since(store, BILLING) is None
        await self.settle(member, [delivery], RELEASED)
        assert await self.waits_since(store, BILLING) is not None
        assert (await store.survey([LOG, AUDIT]))[1].oldest_ms == first


class LocateConformance(TopicGround):
    async def located(self, store: Store, job: bytes) -> list[str]:
        """As `locate` says, and as `get` does in each queue."""
        asked = [OTHER, QUEUE, BILLING, AUDIT, "never"]
        found = await store.locate(asked, job)
        seen = [each for each in asked if await store.get(each, [job]) != [None]]
        assert found == seen
        return found

    async def test_a_job_is_located_wherever_it_is(self, store: Store) -> None:
        assert await self.located(store, parcel("one").job_id) == []
        assert await store.locate([], parcel("one").job_id) == []
        (waiting,) = await self.send(store)
        scheduled, lane = parcel(delay_ms=MINUTE_MS), Constraints(lane="a")
        ahead, blocked = parcel(constraints=lane), parcel(constraints=lane)
        await store.append(QUEUE, [scheduled, ahead, blocked])
        for key in (waiting, scheduled.job_id, ahead.job_id, blocked.job_id):
            assert await self.located(store, key) == [QUEUE]

    async def test_a_job_that_has_ended_is_located_while_anything_is_kept_of_it(
        self, store: Store
    ) -> None:
        keys = await self.send(store, 3)
        worker = self.worker(store)
        outcomes: list[Outcome] = [kept(), DEAD, DONE]
        for delivery, outcome in zip(await self.take(worker, 3), outcomes, strict=True):
            assert await self.located(store, delivery.job_id) == [QUEUE]
            await self.settle(worker, [delivery], outcome)
        assert [await self.located(store, key) for key in keys] == [[QUEUE], [QUEUE], []]

    async def test_an_event_is_located_in_the_log_that_holds_it(self, store: Store) -> None:
        (event,) = await self.publish(store)
        assert await store.locate([QUEUE, "@news", LOG, "@orders#1"], event) == [LOG]

    async def test_an_id_may_be_in_several_queues(self, store: Store) -> None:
        job = parcel("one")
        await store.append(QUEUE, [job])
        await store.append(OTHER, [job])
        assert await self.located(store, job.job_id) == [OTHER, QUEUE]
        assert await store.locate([QUEUE, *NOBODY, OTHER, BILLING], job.job_id) == [QUEUE, OTHER]

    @of_each_kind
    async def test_an_event_is_located_in_the_groups_that_have_not_settled_it(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.put(store, [event(key="a")])
        assert await self.located(store, sent) == [BILLING, AUDIT]
        member = self.member(store)
        taken = await self.take(member)
        assert await self.located(store, sent) == [BILLING, AUDIT]
        await self.settle(member, taken, DONE)
        assert await self.located(store, sent) == [AUDIT]
