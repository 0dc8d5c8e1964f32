"""Groups: each gets each event once, whatever others do."""

from __future__ import annotations

import asyncio

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, Retried
from headrace.core.job.state import State
from headrace.core.queue_names import group_queue
from headrace.store.contract import Store
from headrace.store.topics import Group
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, ids_of, known
from headrace.testing.conformance.jobs.settlement import DEAD, RETRIED
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    START,
    TASK,
    TopicGround,
    event,
    of_each_kind,
)

SHARDS = [group_queue("orders", "billing", shard) for shard in range(3)]


class GroupsConformance(TopicGround):
    @of_each_kind
    async def test_a_delivery_carries_the_event_as_it_was_published(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = event(key="a")
        await self.put(store, [sent])
        (delivery,) = await self.take(self.member(store))
        assert (delivery.job_id, delivery.queue, delivery.task) == (sent.job_id, BILLING, TASK)
        assert (delivery.envelope, delivery.count, delivery.history) == (sent.envelope, 1, b"")

    @of_each_kind
    async def test_each_group_gets_each_event_once(self, store: Store, group: Group) -> None:
        queues = ["a@orders", "b@orders", "c@orders"]
        await self.join(store, *queues, group=group)
        sent = await self.publish(store, 30)
        for queue in queues:
            member = self.member(store, queue)
            assert await self.handle_all(store, member, queue=queue, at_once=7) == sent
            await self.nothing_left(member)
        await self.settled(store, *queues)
        assert await self.in_log(store) == sent

    @of_each_kind
    async def test_consumers_of_a_group_share_its_events(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 100)
        members = [self.member(store) for _ in range(4)]
        taken = await asyncio.gather(*(self.take(member, 25) for member in members))
        assert sorted(job_id for part in taken for job_id in ids_of(part)) == sorted(sent)

    @of_each_kind
    async def test_no_more_events_are_fetched_than_asked_for(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, *SHARDS, group=group)
        for shard in SHARDS:
            await self.publish(store, 5, log=shard.removeprefix("billing"))
        member = self.member(store, *SHARDS)
        taken: list[LeasedDelivery] = []
        for _ in range(60):
            some = await member.fetch(2, 0.1)
            assert len(some) <= 2
            taken += some
            if len(taken) == 15:
                break
        assert {each.queue for each in taken} == set(SHARDS)
        await self.nothing_left(member)

    @of_each_kind
    async def test_a_consumer_reads_all_shards(self, store: Store, group: Group) -> None:
        await self.join(store, *SHARDS, group=group)
        member = self.member(store, *SHARDS)
        for shard in (SHARDS[2], SHARDS[0], SHARDS[1]):
            waiting = asyncio.create_task(member.fetch(3, 30))
            await asyncio.sleep(0.05)
            (sent,) = await self.publish(store, log=shard.removeprefix("billing"))
            taken = known(await asyncio.wait_for(waiting, 10)) or await self.take(member)
            assert [(each.queue, each.job_id) for each in taken] == [(shard, sent)]
            await self.settle(member, taken, DONE)

    @of_each_kind
    async def test_a_waiting_fetch_wakes_for_an_event(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        member = self.member(store)
        for _ in range(3):
            waiting = asyncio.create_task(member.fetch(1, 30))
            await asyncio.sleep(0.05)
            (key,) = await self.publish(store, key="a")
            deliveries = known(await asyncio.wait_for(waiting, 10)) or await self.take(member)
            assert ids_of(deliveries) == [key]
            await self.settle(member, deliveries, DONE)

    @of_each_kind
    async def test_a_fetch_that_waits_for_events_can_be_interrupted(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        member = self.member(store)
        waiting = asyncio.create_task(member.fetch(1, 30))
        while not waiting.done():
            await asyncio.sleep(0.02)
            await member.interrupt()
        assert await waiting == []

    # The state of groups

    async def test_groups_are_known_by_name(self, store: Store) -> None:
        assert (await store.groups([LOG]))[LOG] == []
        blocking = Group(ordered=True, on_failure="block")
        await self.join(store, "ledger@orders", group=blocking)
        await self.join(store, AUDIT, SHARDS[1])
        states = (await store.groups([LOG]))[LOG]
        assert [(state.name, state.ordered, state.on_failure) for state in states] == [
            ("audit", False, "skip"),
            ("ledger", True, "block"),
        ]
        assert await store.queues() == []
        now = await store.time_ms()
        assert all(abs(now - state.seen_ms) <= 60_000 for state in states)

    async def test_many_logs_are_asked_about_together(self, store: Store) -> None:
        await self.join(store, AUDIT, BILLING, SHARDS[1])
        await self.publish(store, 3)
        logs = ["@orders#1", "@news", LOG]
        found = await store.groups(logs)
        assert list(found) == logs
        assert [
            [(state.name, state.behind, state.counts.waiting) for state in found[log]]
            for log in logs
        ] == [[("billing", 0, 0)], [], [("audit", 3, 3), ("billing", 3, 3)]]
        assert await store.lengths(logs) == {"@orders#1": 0, "@news": 0, LOG: 3}
        assert (await store.groups([]), await store.lengths([])) == ({}, {})

    @of_each_kind
    async def test_a_group_tells_what_it_has_still_to_do(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        await self.publish(store, 5)
        state = await self.group(store)
        assert (state.behind, state.counts) == (5, Counts(waiting=5))
        assert state.oldest_ms == (await store.read(LOG))[0].at_ms
        member = self.member(store)
        taken = await self.take(member, 3)
        state = await self.group(store)
        assert state.counts == Counts(waiting=2, running=3)
        assert state.behind <= 2
        await self.settle(member, taken[:1], RETRIED)
        await self.settle(member, taken[1:2], DEAD)
        await self.settle(member, taken[2:], DONE)
        assert await store.count(BILLING) == Counts(waiting=2, scheduled=1, dead=1)
        await self.handle_all_due(store, BILLING)
        assert await store.count(BILLING) == Counts(scheduled=1, dead=1)
        assert (await self.group(store)).behind == 0

    @of_each_kind
    async def test_a_group_tells_how_old_the_oldest_is_that_is_not_settled(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        first, second, third = await self.three_apart(store)
        member = self.member(store)
        # In the log, running from there, scheduled, waiting in the group's queue, running from it.
        assert await self.oldest(store) == first
        taken = await self.take(member)
        assert await self.oldest(store) == first
        await self.settle(member, taken, DONE)
        assert await self.oldest(store) == second
        await self.settle(member, await self.take(member), Retried(20, HISTORY))
        assert await self.oldest(store) == second
        last = await self.take(member)
        await self.pass_time(0.03)
        await self.upkeep(store, member, [BILLING])
        assert (await store.count(BILLING)).waiting == 1
        assert await self.oldest(store) == second
        taken = await self.take(member)
        assert await self.oldest(store) == second
        await self.settle(member, taken, DONE)
        assert await self.oldest(store) == third
        await self.settle(member, last, DONE)
        assert await self.oldest(store) is None

    @of_each_kind
    async def test_what_a_group_was_rewound_to_is_as_old_as_it_is(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        first, _, third = await self.three_apart(store)
        member = self.member(store)
        taken = await self.take(member, 3)
        await self.settle(member, taken[:2], DONE)
        assert await self.oldest(store) == third
        await store.rewind(BILLING, START)
        assert await self.oldest(store) == first
        await self.settle(member, taken[2:], DONE)
        await self.handle_all(store, member)
        assert await self.oldest(store) is None

    async def test_what_waits_behind_a_stopped_key_grows_old(self, store: Store) -> None:
        await self.join(store, group=Group(ordered=True, on_failure="block"))
        _, second, _ = await self.three_apart(store, key="a")
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        await self.handle_all_due(store, BILLING)
        assert await store.count(BILLING) == Counts(blocked=2, dead=1)
        assert await self.oldest(store) == second

    async def three_apart(self, store: Store, *, key: str = "") -> list[int]:
        """Three events, and when each was added: never two at the same time."""
        for _ in range(3):
            await self.publish(store, key=key)
            await self.pass_time(0.003)
        return [logged.at_ms for logged in await store.read(LOG)]

    async def oldest(self, store: Store) -> int | None:
        return (await self.group(store)).oldest_ms

    async def handle_all_due(self, store: Store, queue: str) -> None:
        """All but what is scheduled for later."""
        member = self.member(store, queue)
        while taken := known(await member.fetch(100, 0)):
            await self.settle(member, taken, DONE)

    @of_each_kind
    async def test_an_event_can_be_looked_up_in_each_group(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store)
        for queue in (BILLING, AUDIT):
            assert await self.states(store, [sent], queue) == [State.WAITING]
            assert (await store.browse(queue, State.WAITING)).job_ids == [sent]
        member = self.member(store, name="the-worker")
        taken = await self.take(member)
        snapshot = await self.snapshot(store, sent, BILLING)
        assert (snapshot.state, snapshot.worker) == (State.RUNNING, "the-worker")
        assert (await store.browse(BILLING, State.RUNNING)).job_ids == [sent]
        await self.settle(member, taken, DONE)
        assert await self.states(store, [sent], BILLING) == [None]
        assert await self.states(store, [sent], AUDIT) == [State.WAITING]
