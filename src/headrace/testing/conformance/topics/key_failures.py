"""Keys of an ordered group that a dead event has stopped or failed."""

from __future__ import annotations

import pytest

from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer
from headrace.store.deaths import Deaths
from headrace.store.topics import Group, StoppedKey
from headrace.store.values import Counts
from headrace.testing.conformance.ground import ids_of
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    NEW,
    TopicGround,
    event,
    keys,
)

BLOCK = Group(ordered=True, on_failure="block")
FAIL_KEY = Group(ordered=True, on_failure="fail_key")
MANY = 2500


class KeyFailuresConformance(TopicGround):
    async def fail_first(self, store: Store, member: StoreConsumer) -> None:
        """The next event goes dead."""
        await self.settle(member, await self.take(member), DEAD)

    async def stopped(self, store: Store) -> list[StoppedKey]:
        found = await store.stopped_keys(BILLING)
        group = await self.group(store)
        assert group.stopped_keys == len(found)
        assert group.stopped_since_ms == min((key.since_ms for key in found), default=None)
        return found

    async def stopped_by_the_first(self, store: Store) -> tuple[StoreConsumer, list[JobId]]:
        """A member, and three events of one key, which the death of the first has stopped."""
        await self.join(store, group=BLOCK)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        await self.fail_first(store, member)
        await self.nothing_left(member)
        return member, sent

    # block

    async def test_a_stopped_key_waits_and_the_others_go_on(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        before = await store.time_ms()
        events = [event(key=name) for name in "aabab"]
        await self.put(store, events)
        member = self.member(store)
        await self.fail_first(store, member)
        assert await self.handle_all(store, member) == keys([events[2], events[4]])
        (key,) = await self.stopped(store)
        assert (key.key, key.state, key.event) == ("a", "blocked", events[0].job_id)
        assert key.waiting == 2
        group = await self.group(store)
        assert (group.behind, group.stopped_events) == (0, 2), "nothing in the log, yet not handled"
        assert before <= key.since_ms <= await store.time_ms()
        assert await store.count(BILLING) == Counts(blocked=2, dead=1)
        (snapshot, _) = await store.get(BILLING, keys([events[1], events[3]]))
        assert snapshot is not None
        assert snapshot.state is State.BLOCKED

    async def test_later_events_of_a_stopped_key_wait_too(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        await self.publish(store, key="a")
        await self.fail_first(store, self.member(store))
        later = [event(key=name) for name in "aba"]
        await self.put(store, later)
        assert await self.handle_all(store, self.member(store)) == [later[1].job_id]
        (key,) = await self.stopped(store)
        assert key.waiting == 2

    async def test_a_key_that_is_freed_goes_on_in_order(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        sent = await self.publish(store, 4, key="a")
        member = self.member(store)
        await self.fail_first(store, member)
        await self.nothing_left(member)
        assert await store.free_key(BILLING, "a")
        assert not await store.free_key(BILLING, "a")
        assert await self.stopped(store) == []
        assert await self.handle_all(store, member) == sent[1:]
        assert await store.count(BILLING) == Counts(dead=1)
        assert await store.replay(BILLING, sent[:1]) == [True]
        assert await self.handle_all(store, member) == sent[:1]
        await self.settled(store)

    async def test_a_freed_key_is_stopped_by_the_next_that_dies(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        for number in (0, 1):
            await self.fail_first(store, member)
            (key,) = await self.stopped(store)
            assert (key.event, key.waiting) == (sent[number], 2 - number)
            await store.free_key(BILLING, "a")
        assert await self.handle_all(store, member) == sent[2:]

    async def test_a_stopped_key_goes_on_with_the_event_that_stopped_it_if_that_is_replayed(
        self, store: Store
    ) -> None:
        member, sent = await self.stopped_by_the_first(store)
        assert await store.replay(BILLING, sent[:1]) == [True]
        assert await self.stopped(store) == []
        for job_id in sent:
            taken = await self.take(member)
            assert ids_of(taken) == [job_id]
            await self.nothing_left(member)
            await self.settle(member, taken, DONE)
        await self.settled(store)

    async def test_a_replayed_event_that_dies_again_stops_its_key_again(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        sent = await self.publish(store, 2, key="a")
        member = self.member(store)
        for _ in range(2):
            await self.fail_first(store, member)
            await self.nothing_left(member)
            (key,) = await self.stopped(store)
            assert (key.event, key.waiting) == (sent[0], 1)
            await store.replay(BILLING, sent[:1])

    async def test_a_stopped_key_goes_on_if_the_event_that_stopped_it_is_purged(
        self, store: Store
    ) -> None:
        member, sent = await self.stopped_by_the_first(store)
        assert await store.purge(BILLING, sent[:1]) == [True]
        assert await self.stopped(store) == []
        assert await self.handle_all(store, member) == sent[1:]
        await self.settled(store)

    async def test_a_dead_event_without_a_key_stops_nobody(self, store: Store) -> None:
        await self.join(store, group=BLOCK)
        sent = await self.publish(store, 3)
        member = self.member(store)
        await self.fail_first(store, member)
        assert await self.stopped(store) == []
        assert await self.handle_all(store, member) == sent[1:]

    @pytest.mark.parametrize("group", [BLOCK, FAIL_KEY], ids=["block", "fail_key"])
    async def test_a_stopped_key_holds_up_nobody_however_much_waits_behind_it(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store, key="a")
        member = self.member(store)
        await self.fail_first(store, member)
        await self.publish(store, MANY, key="a")
        (other,) = await self.publish(store, key="b")
        assert await self.handle_all(store, member) == [other]
        counts = await store.count(BILLING)
        assert counts.blocked + counts.dead == MANY + 1

    async def test_a_group_says_how_much_waits_behind_its_stopped_keys_and_since_when(
        self, store: Store
    ) -> None:
        await self.join(store, group=BLOCK)
        await self.put(store, [event(key=name) for name in "abaabc"])
        member = self.member(store)
        for _ in "ab":
            await self.fail_first(store, member)
        await self.handle_all(store, member)
        found = await self.stopped(store)
        group = await self.group(store)
        assert group.stopped_events == sum(key.waiting for key in found) == 3
        assert group.counts == Counts(blocked=3, dead=2)
        for name, left in (("a", 1), ("b", 0)):
            assert await store.free_key(BILLING, name)
            await self.handle_all(store, member)
            assert (await self.group(store)).stopped_events == left
        assert await self.stopped(store) == []

    async def test_stopped_keys_are_listed_by_name(self, store: Store) -> None:
        await self.join(store, BILLING, AUDIT, group=BLOCK)
        names = ["c", "ä", "a", "b"]
        sent = await self.put(store, [event(key=name) for name in names])
        member = self.member(store)
        assert await self.handle_all(store, member, DEAD) == sent
        found = await self.stopped(store)
        assert [key.key for key in found] == sorted(names)
        assert [key.key for key in await store.stopped_keys(BILLING, 2)] == ["a", "b"]
        assert await store.stopped_keys(AUDIT) == []
        assert not await store.free_key(AUDIT, "a")
        assert not await store.free_key(BILLING, "x")

    # fail_key

    async def test_later_events_of_a_failed_key_go_dead_with_their_bytes(
        self, store: Store
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=FAIL_KEY)
        events = [event(key=name) for name in "aabab"]
        sent = await self.put(store, events)
        member = self.member(store)
        await self.fail_first(store, member)
        assert await self.handle_all(store, member) == keys([events[2], events[4]])
        later = [event(key="a"), event(key="b")]
        await self.put(store, later)
        assert await self.handle_all(store, self.member(store)) == [later[1].job_id]
        dead = {job.job_id: job for job in (await store.dead(BILLING)).jobs}
        doomed = [events[1], events[3], later[0]]
        assert {key: job.reason for key, job in dead.items()} == {
            events[0].job_id: "rejected",
            **{item.job_id: "key_failed" for item in doomed},
        }
        assert [dead[item.job_id].envelope for item in doomed] == [i.envelope for i in doomed]
        (key,) = await self.stopped(store)
        assert (key.key, key.state, key.event, key.waiting) == ("a", "failed", sent[0], 0)
        assert await store.count(AUDIT) == Counts(waiting=7)

    async def test_a_failed_key_that_is_freed_is_handled_again(self, store: Store) -> None:
        await self.join(store, group=FAIL_KEY)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        await self.fail_first(store, member)
        assert await self.handle_all(store, member) == []
        assert await store.free_key(BILLING, "a")
        assert not await store.free_key(BILLING, "a")
        assert await self.stopped(store) == []
        (later,) = await self.publish(store, key="a")
        assert await self.handle_all(store, member) == [later]
        assert await store.count(BILLING) == Counts(dead=3)
        assert await store.replay(BILLING, sent) == [True] * 3
        assert await self.handle_all(store, member) == sent
        await self.settled(store)

    async def test_events_that_die_with_their_key_are_reported(self, store: Store) -> None:
        deaths: list[Deaths] = []
        await self.join(store, group=FAIL_KEY)
        sent = await self.publish(store, 3, key="a")
        member = self.worker(store, queues=[BILLING], on_deaths=deaths.extend)
        await self.fail_first(store, member)
        await self.nothing_left(member)
        later = await self.publish(store, 2, key="a")
        await self.nothing_left(member)
        assert sum(each.count for each in deaths) == 4
        assert {each.job_id for each in deaths} <= {*sent[1:], *later}
        assert {(e.queue, e.reason, e.why) for e in deaths} == {(BILLING, "key_failed", b"a")}

    async def test_a_failed_key_stays_failed_for_whoever_comes(self, store: Store) -> None:
        await self.join(store, group=FAIL_KEY)
        await self.publish(store, key="a")
        first = self.member(store)
        await self.fail_first(store, first)
        await first.close()
        assert not await store.join(BILLING, FAIL_KEY, NEW)
        await self.publish(store, 2, key="a")
        assert await self.handle_all(store, self.member(store)) == []
        assert await store.count(BILLING) == Counts(dead=3)

    # The end of a group

    @pytest.mark.parametrize("group", [BLOCK, FAIL_KEY], ids=["block", "fail_key"])
    async def test_stopped_keys_end_with_their_group(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        await self.fail_first(store, member)
        await self.handle_all(store, member)
        await member.close()
        await store.disband(BILLING)
        await self.join(store, group=group)
        assert await self.stopped(store) == []
        assert await self.handle_all(store, self.member(store)) == sent
