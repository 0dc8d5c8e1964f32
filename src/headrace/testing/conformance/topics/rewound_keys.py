"""Ordered groups that go back over dead events, or over events blocked behind one."""

from __future__ import annotations

import pytest

from headrace.core.job.outcome import DONE
from headrace.store.contract import DeadJob, Store, StoreConsumer
from headrace.store.topics import Group, Position
from headrace.store.values import Counts
from headrace.testing.conformance.ground import ids_of, known
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    BILLING,
    ORDERED,
    START,
    TopicGround,
    event,
    keys,
)

BLOCK = Group(ordered=True, on_failure="block")
FAIL_KEY = Group(ordered=True, on_failure="fail_key")
of_each_stop = pytest.mark.parametrize("group", [BLOCK, FAIL_KEY], ids=["block", "fail_key"])


class RewoundKeysConformance(TopicGround):
    async def one_by_one(self, member: StoreConsumer, ends: str) -> None:
        """End the next events, each as its letter says: done or lost. All that can be taken from
        the log is taken with the first."""
        for letter in ends:
            (delivery,) = known(await member.fetch(100, 0))
            assert await self.settle(member, [delivery], DONE if letter == "d" else DEAD) == []

    async def dead_jobs(self, store: Store) -> list[DeadJob]:
        found = (await store.dead(BILLING)).jobs
        return sorted(found, key=lambda job: job.job_id)

    async def in_turn(self, store: Store, member: StoreConsumer) -> list[bytes]:
        """What is handled of one key, each before the next is there."""
        handled: list[bytes] = []
        while taken := known(await member.fetch(100, 0)):
            assert len(taken) == 1
            handled += ids_of(taken)
            await self.settle(member, taken, DONE)
        return handled

    async def test_dead_events_come_again_in_their_order(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 6, key="a")
        member = self.member(store)
        await self.one_by_one(member, "dxdxd")
        await store.rewind(BILLING, START)
        assert await self.in_turn(store, member) == sent
        await self.settled(store)

    @of_each_stop
    async def test_events_before_the_one_that_stopped_their_key_come_again_before_it(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 6, key="a")
        member = self.member(store)
        await self.one_by_one(member, "ddx")
        await self.nothing_left(member)
        await store.rewind(BILLING, START)
        assert await store.stopped_keys(BILLING) == []
        assert await self.in_turn(store, member) == sent
        await self.settled(store)

    async def test_a_failed_key_goes_on_when_its_event_comes_again(self, store: Store) -> None:
        await self.join(store, group=FAIL_KEY)
        events = [event(key=key) for key in "aabaa"]
        await self.put(store, events)
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        assert await self.handle_all(store, member) == [events[2].job_id]
        assert await store.count(BILLING) == Counts(dead=4)
        await store.rewind(BILLING, START)
        ran = await self.handle_all(store, member, at_once=1)
        for key in "ab":
            mine = [item.job_id for item in events if item.constraints.lane == key]
            assert [each for each in ran if each in mine] == mine
        assert await store.stopped_keys(BILLING) == []
        await self.settled(store)

    async def test_a_key_fails_again_if_its_event_does(self, store: Store) -> None:
        await self.join(store, group=FAIL_KEY)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        for _ in range(2):
            await self.one_by_one(member, "x")
            await self.nothing_left(member)
            dead = await self.dead_jobs(store)
            assert [job.job_id for job in dead] == sorted(sent)
            assert sorted(job.reason for job in dead) == ["key_failed", "key_failed", "rejected"]
            (key,) = await store.stopped_keys(BILLING)
            assert (key.state, key.event) == ("failed", sent[0])
            await store.rewind(BILLING, START)

    async def test_what_is_dead_of_a_key_that_an_earlier_event_failed_stays_as_it_is(
        self, store: Store
    ) -> None:
        await self.join(store, group=FAIL_KEY)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        await self.one_by_one(member, "x")
        for key in (sent[1], sent[0]):
            await self.nothing_left(member)
            assert await store.free_key(BILLING, "a")
            assert await store.replay(BILLING, [key]) == [True]
            await self.one_by_one(member, "x")
        before = await self.dead_jobs(store)
        reasons = {job.job_id: job.reason for job in before}
        assert [reasons[key] for key in sent] == ["rejected", "rejected", "key_failed"]
        await store.rewind(BILLING, Position("event", sent[1]))
        (later,) = await self.publish(store, key="b")
        assert await self.handle_all(store, member) == [later]
        assert await self.dead_jobs(store) == before
        (stopped,) = await store.stopped_keys(BILLING)
        assert (stopped.key, stopped.state, stopped.event) == ("a", "failed", sent[0])

    async def test_what_was_done_of_a_key_that_an_earlier_event_failed_goes_dead(
        self, store: Store
    ) -> None:
        await self.join(store, group=FAIL_KEY)
        sent = await self.publish(store, 2, key="a")
        member = self.member(store)
        await self.one_by_one(member, "x")
        await self.nothing_left(member)
        assert await store.replay(BILLING, sent[1:]) == [True]
        assert await self.handle_all(store, member) == sent[1:]
        await store.rewind(BILLING, Position("event", sent[1]))
        assert await self.handle_all(store, member) == []
        reasons = {job.job_id: job.reason for job in await self.dead_jobs(store)}
        assert reasons == {sent[0]: "rejected", sent[1]: "key_failed"}

    async def test_what_the_log_has_no_longer_still_waits_behind_its_key(
        self, store: Store
    ) -> None:
        await self.join(store, group=BLOCK)
        old = await self.publish(store, 4, key="a")
        member = self.member(store)
        await self.one_by_one(member, "x")
        await self.nothing_left(member)
        await self.pass_time(0.01)
        await self.trim_to(store, 0)
        young = await self.put(store, [event(key=key) for key in "aba"])
        assert await self.handle_all(store, member) == [young[1]]
        await store.rewind(BILLING, START)
        assert await self.handle_all(store, member) == [young[1]]
        assert await store.count(BILLING) == Counts(blocked=5, dead=1)
        (stopped,) = await store.stopped_keys(BILLING)
        assert (stopped.event, stopped.waiting) == (old[0], 5)
        assert await store.free_key(BILLING, "a")
        assert await self.in_turn(store, member) == [*old[1:], young[0], young[2]]

    async def test_what_waits_before_the_place_is_passed_over(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        events = [event(key=key) for key in "aaaba"]
        await self.put(store, events)
        member = self.member(store)
        taken = known(await member.fetch(100, 0))
        assert ids_of(taken) == keys([events[0], events[3]])
        await self.settle(member, taken[:1], DEAD)
        await self.settle(member, taken[1:], DONE)
        await store.rewind(BILLING, Position("event", events[2].job_id))
        assert await self.handle_all(store, member) == [events[3].job_id]
        assert await store.free_key(BILLING, "a")
        assert await self.in_turn(store, member) == keys([events[2], events[4]])
        assert await store.count(BILLING) == Counts(dead=1)
