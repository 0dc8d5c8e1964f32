"""Groups that go back or ahead in their log."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.core.job import ids
from headrace.core.job.outcome import DONE, Retried
from headrace.errors import EventNotFound, GroupNotFound
from headrace.store.contract import Store
from headrace.store.topics import Group, Position
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, ids_of, known
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    NEW,
    ORDERED,
    START,
    TopicGround,
    event,
    keys,
    of_each_kind,
)


class RewindConformance(TopicGround):
    @of_each_kind
    async def test_a_group_goes_back_to_the_given_place(self, store: Store, group: Group) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        old = await self.publish(store, 2)
        await self.pass_time(0.02)
        now = await store.time_ms()
        young = await self.publish(store, 3)
        member, other = self.member(store), self.member(store, AUDIT)
        assert await self.handle_all(store, member) == [*old, *young]
        assert await self.handle_all(store, other, queue=AUDIT) == [*old, *young]
        places = {
            START: [*old, *young],
            Position("event", young[1]): young[1:],
            Position("time", at_ms=now): young,
            NEW: [],
        }
        for place, expected in places.items():
            await store.rewind(BILLING, place)
            assert (await self.group(store)).behind == len(expected)
            assert await self.handle_all(store, member) == expected
        await self.nothing_left(other)
        await self.settled(store, BILLING, AUDIT)

    @of_each_kind
    async def test_a_group_skips_what_it_is_told_to(self, store: Store, group: Group) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        sent = await self.publish(store, 4)
        await store.rewind(BILLING, Position("event", sent[2]))
        member = self.member(store)
        assert await self.handle_all(store, member) == sent[2:]
        await self.publish(store, 2)
        await store.rewind(BILLING, NEW)
        await self.nothing_left(member)
        (last,) = await self.publish(store)
        assert await self.handle_all(store, member) == [last]
        assert await store.count(AUDIT) == Counts(waiting=7)

    @of_each_kind
    async def test_what_a_group_holds_it_still_handles(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 5)
        member = self.member(store)
        held, failed, *_ = await self.take(member, 2)
        await self.settle(member, [failed], Retried(50, HISTORY))
        await store.rewind(BILLING, NEW)
        await self.settle(member, [held], DONE)
        await self.pass_time(0.06)
        assert await self.handle_all(store, member) == [failed.job_id]
        await self.settled(store)
        assert failed.job_id == sent[1]

    @of_each_kind
    async def test_what_a_group_held_when_it_went_back_does_no_harm(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 6)
        member = self.member(store)
        held, failed, done, *_ = await self.take(member, 3)
        await self.settle(member, [done], DONE)
        await self.settle(member, [failed], Retried(50, HISTORY))
        await store.rewind(BILLING, START)
        first = await self.take(member)
        await self.settle(member, [held], DONE)
        await self.settle(member, first, DONE)
        await self.pass_time(0.06)
        handled = Counter([*ids_of(first), *await self.handle_all(store, member)])
        handled[held.job_id] += 1
        assert set(handled) == set(sent)
        assert max(handled.values()) <= 2
        assert await store.count(BILLING) == Counts()

    @of_each_kind
    async def test_a_dead_event_that_comes_again_is_dead_no_more(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 3)
        member = self.member(store)
        await self.handle_all(store, member, DEAD)
        await store.rewind(BILLING, Position("event", sent[1]))
        assert await self.handle_all(store, member) == sent[1:]
        assert [job.job_id for job in (await store.dead(BILLING)).jobs] == sent[:1]
        await store.rewind(BILLING, START)
        await self.handle_all(store, member, DEAD)
        assert await store.count(BILLING) == Counts(dead=3)
        dead = [job.job_id for job in (await store.dead(BILLING)).jobs]
        assert sorted(dead) == sorted(sent)

    async def test_order_is_kept_from_where_the_group_goes_on(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        events = [event(key="ab"[n % 2]) for n in range(10)]
        await self.put(store, events)
        member = self.member(store)
        taken = known(await member.fetch(100, 0))
        assert ids_of(taken) == keys(events[:2])
        await store.rewind(BILLING, START)
        await self.settle(member, taken, DONE)
        ran = await self.handle_all(store, member)
        for key in "ab":
            mine = [item.job_id for item in events if item.constraints.lane == key]
            handled = [each for each in ran if each in mine]
            # What it held may be handled again or not; then all others follow in order.
            assert handled in (mine, mine[1:])
        await self.settled(store)

    async def test_what_was_taken_and_not_begun_is_not_ahead_of_what_comes_again(
        self, store: Store
    ) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 6, key="a")
        member = self.member(store)
        for _ in range(3):
            await self.settle(member, known(await member.fetch(10, 0)), DONE)
        await store.rewind(BILLING, START)
        assert await store.count(BILLING) == Counts(waiting=6)
        assert await self.handle_all(store, member) == sent
        await self.settled(store)

    async def test_what_was_taken_and_not_begun_is_passed_over(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 6, key="a")
        member = self.member(store)
        held = known(await member.fetch(10, 0))
        await store.rewind(BILLING, Position("event", sent[4]))
        await self.settle(member, held, Retried(0, HISTORY))
        assert await self.handle_all(store, member) == [sent[0], *sent[4:]]
        await store.rewind(BILLING, START)
        await self.settle(member, known(await member.fetch(10, 0)), Retried(50, HISTORY))
        await store.rewind(BILLING, NEW)
        assert await self.handle_all(store, member) == sent[:1]
        await self.settled(store)

    async def test_a_stopped_key_goes_on_when_its_event_comes_again(self, store: Store) -> None:
        await self.join(store, group=Group(ordered=True, on_failure="block"))
        events = [event(key="a") for _ in range(3)]
        await self.put(store, events)
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        assert await self.handle_all(store, member) == []
        await store.rewind(BILLING, START)
        assert await self.handle_all(store, member) == keys(events)
        assert await store.stopped_keys(BILLING) == []
        await self.settled(store)

    async def test_a_group_cannot_go_where_nothing_is(self, store: Store) -> None:
        await self.publish(store)
        with pytest.raises(GroupNotFound):
            await store.rewind(BILLING, START)
        await self.join(store)
        with pytest.raises(EventNotFound):
            await store.rewind(BILLING, Position("event", ids.new_id()))
        assert (await self.group(store)).behind == 1
