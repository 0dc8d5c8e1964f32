"""How a group begins, changes and ends."""

from __future__ import annotations

import pytest

from headrace.core.job import ids
from headrace.core.job.outcome import DONE, Retried
from headrace.errors import EventNotFound
from headrace.store.contract import Store
from headrace.store.topics import Group, Position
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY
from headrace.testing.conformance.jobs.settlement import DEAD, RETRIED
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    NEW,
    ORDERED,
    PLAIN,
    START,
    TopicGround,
    event,
    of_each_kind,
)


class GroupJoinConformance(TopicGround):
    @of_each_kind
    async def test_a_new_group_begins_where_it_says(self, store: Store, group: Group) -> None:
        old = await self.publish(store, 2)
        await self.pass_time(0.02)
        now = await store.time_ms()
        young = await self.publish(store, 3)
        begins = {
            "new": (NEW, []),
            "start": (START, [*old, *young]),
            "event": (Position("event", young[1]), young[1:]),
            "time": (Position("time", at_ms=now), young),
        }
        for name, (begin, _) in begins.items():
            assert await store.join(f"{name}@orders", group, begin)
        (last,) = await self.publish(store)
        for name, (_, expected) in begins.items():
            queue = f"{name}@orders"
            assert (await self.group(store, queue)).behind == len(expected) + 1
            member = self.member(store, queue)
            assert await self.handle_all(store, member, queue=queue) == [*expected, last]

    async def test_a_group_may_begin_before_there_is_a_log(self, store: Store) -> None:
        await self.join(store, BILLING, begin=NEW)
        await self.join(store, AUDIT, begin=NEW, group=ORDERED)
        sent = await self.publish(store, 3)
        for queue in (BILLING, AUDIT):
            member = self.member(store, queue)
            assert await self.handle_all(store, member, queue=queue) == sent

    @of_each_kind
    async def test_joining_again_moves_nothing(self, store: Store, group: Group) -> None:
        sent = await self.publish(store, 4)
        await self.join(store, group=group)
        member = self.member(store)
        taken = await self.take(member, 2)
        for begin in (NEW, START, Position("event", ids.new_id())):
            assert not await store.join(BILLING, group, begin)
        assert await self.settle(member, taken, DONE) == []
        assert await self.handle_all(store, member) == sent[2:]

    async def test_a_group_cannot_begin_at_an_unknown_event(self, store: Store) -> None:
        await self.publish(store)
        with pytest.raises(EventNotFound):
            await store.join(BILLING, PLAIN, Position("event", ids.new_id()))
        assert (await store.groups([LOG]))[LOG] == []

    async def test_an_event_that_is_yet_to_come_is_no_place(self, store: Store) -> None:
        scheduled = event(delay_ms=50)
        await self.put(store, [event(), scheduled])
        place = Position("event", scheduled.job_id)
        await self.join(store, AUDIT)
        with pytest.raises(EventNotFound):
            await store.position(LOG, place)
        with pytest.raises(EventNotFound):
            await store.join(BILLING, PLAIN, place)
        with pytest.raises(EventNotFound):
            await store.rewind(AUDIT, place)
        assert (await self.group(store, AUDIT)).behind == 1
        await self.pass_time(0.06)
        await self.member(store, AUDIT).promote(LOG)
        await self.join(store, BILLING, begin=place)
        assert await self.handle_all(store, self.member(store)) == [scheduled.job_id]

    @pytest.mark.parametrize(
        ("before", "after"), [(PLAIN, ORDERED), (ORDERED, PLAIN)], ids=["to ordered", "to plain"]
    )
    async def test_a_group_may_change_its_mind_and_loses_nothing(
        self, store: Store, before: Group, after: Group
    ) -> None:
        await self.join(store, group=before)
        sent = await self.put(store, [event(key="ab"[n % 2]) for n in range(8)])
        first, second = self.member(store), self.member(store)
        held, failed = await self.take(first, 2)
        await self.settle(first, [failed], Retried(10, HISTORY))
        assert not await store.join(BILLING, after, NEW)
        assert (await self.group(store)).ordered == after.ordered
        assert await self.settle(first, [held], DONE) == []
        await self.pass_time(0.02)
        ran = await self.handle_all(store, second)
        assert sorted([held.job_id, *ran]) == sorted(sent)
        await self.settled(store)

    # The end of a group

    @of_each_kind
    async def test_a_disbanded_group_is_gone_with_all_it_held(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        sent = await self.publish(store, 6)
        member = self.member(store)
        taken = await self.take(member, 3)
        await self.settle(member, taken[:1], DEAD)
        await self.settle(member, taken[1:2], RETRIED)
        await member.close()
        assert await store.disband(BILLING)
        assert not await store.disband(BILLING)
        assert [state.name for state in (await store.groups([LOG]))[LOG]] == ["audit"]
        assert await store.count(BILLING) == Counts()
        assert (await store.dead(BILLING)).jobs == []
        other = self.member(store, AUDIT)
        assert await self.handle_all(store, other, queue=AUDIT) == sent

    @of_each_kind
    async def test_a_group_of_the_same_name_begins_anew(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 4)
        member = self.member(store)
        await self.settle(member, await self.take(member, 2), DEAD)
        await member.close()
        await store.disband(BILLING)
        await self.join(store, group=group)
        assert await self.handle_all(store, self.member(store)) == sent
        await self.settled(store)
