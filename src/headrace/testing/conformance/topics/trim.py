"""Trimming events that no group needs any more."""

from __future__ import annotations

import pytest

from headrace.core.job.outcome import DONE, Retried
from headrace.errors import EventNotFound
from headrace.store.contract import Store
from headrace.store.topics import Group, Position, Published, Trimmed
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    NEW,
    WEEK_MS,
    TopicGround,
    event,
    of_each_kind,
)

BRIEF_MS = 100
HOUR_MS = 3_600_000
CENTURY_MS = 36_500 * 24 * HOUR_MS
"""Began before 1970."""


class TrimConformance(TopicGround):
    async def test_events_are_kept_as_long_as_the_log_is_to_keep_them(self, store: Store) -> None:
        sent = await self.publish(store, 3)
        await self.pass_time(0.01)
        trimmed = await store.trim(LOG, retention_ms=HOUR_MS, gone_after_ms=WEEK_MS)
        assert trimmed == Trimmed()
        assert await self.in_log(store) == sent
        await self.pass_time(0.2)
        await self.trim_to(store, 0, retention_ms=BRIEF_MS)

    async def test_events_may_be_kept_for_a_century(self, store: Store) -> None:
        sent = await self.publish(store, 3)
        trimmed = await store.trim(LOG, retention_ms=CENTURY_MS, gone_after_ms=CENTURY_MS)
        assert trimmed == Trimmed()
        assert await self.in_log(store) == sent

    async def test_the_old_go_and_the_young_stay(self, store: Store) -> None:
        await self.publish(store, 3)
        await self.pass_time(1.5)
        young = await self.publish(store, 2)
        age = await store.time_ms() - (await store.read(LOG))[0].at_ms
        trimmed = await store.trim(LOG, retention_ms=age - 100, gone_after_ms=WEEK_MS)
        assert trimmed == Trimmed(removed=3)
        assert await self.in_log(store) == young

    async def test_there_may_be_nothing_to_trim(self, store: Store) -> None:
        assert await store.trim(LOG, retention_ms=0, gone_after_ms=WEEK_MS) == Trimmed()

    async def test_what_a_group_has_not_settled_is_kept(self, store: Store) -> None:
        await self.join(store, BILLING, AUDIT)
        sent = await self.publish(store, 6)
        quick, slow = self.member(store), self.member(store, AUDIT)
        await self.handle_all(store, quick)
        await self.trim_nothing(store)
        held = await self.take(slow, 4)
        await self.trim_nothing(store)
        await self.settle(slow, held[:2], DONE)
        await self.trim_to(store, 4)
        assert await self.in_log(store) == sent[2:]
        await self.settle(slow, held[2:], DONE)
        assert await self.handle_all(store, slow, queue=AUDIT) == sent[4:]
        await self.trim_to(store, 0)

    async def trim_nothing(self, store: Store) -> None:
        length = (await store.lengths([LOG]))[LOG]
        await self.pass_time(0.01)
        for _ in range(3):
            await store.trim(LOG, retention_ms=0, gone_after_ms=WEEK_MS)
        assert (await store.lengths([LOG]))[LOG] == length

    @of_each_kind
    async def test_a_group_that_never_read_holds_the_log(self, store: Store, group: Group) -> None:
        old = await self.publish(store, 2)
        await self.join(store, BILLING, group=group)
        await self.join(store, AUDIT, group=group, begin=NEW)
        young = await self.publish(store, 2)
        await self.trim_nothing(store)
        assert await self.handle_all(store, self.member(store)) == [*old, *young]
        await self.trim_to(store, 2)
        member = self.member(store, AUDIT)
        assert await self.handle_all(store, member, queue=AUDIT) == young
        await self.trim_to(store, 0)

    @of_each_kind
    async def test_a_group_that_is_gone_holds_nothing_back(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store, 3)
        await self.take(self.member(store), 1)
        await self.pass_time(0.2)
        assert await self.trim_to(store, 0, gone_after_ms=BRIEF_MS) == ["billing"]
        # It may come back, and goes on with what is left.
        assert not await store.join(BILLING, group, NEW)
        sent = await self.publish(store, 2)
        member = self.member(store)
        handled = await self.handle_all(store, member)
        assert handled[-2:] == sent
        assert (await self.group(store)).behind == 0

    async def test_a_group_that_is_not_gone_is_not_reported(self, store: Store) -> None:
        await self.join(store, BILLING)
        await self.publish(store, 2)
        await self.handle_all(store, self.member(store))
        await self.pass_time(0.01)
        assert await self.trim_to(store, 0) == []

    async def test_a_disbanded_group_holds_nothing_back(self, store: Store) -> None:
        await self.join(store, BILLING)
        await self.publish(store, 3)
        await self.trim_nothing(store)
        await store.disband(BILLING)
        await self.trim_to(store, 0)

    @of_each_kind
    async def test_what_failed_outlives_the_log(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        dead, failed = event(), event()
        await self.put(store, [dead, failed])
        member = self.member(store)
        first, second = await self.take(member, 2)
        await self.settle(member, [first], DEAD)
        await self.settle(member, [second], Retried(2000, HISTORY))
        await self.pass_time(0.01)
        for _ in range(2):
            await store.trim(LOG, retention_ms=0, gone_after_ms=WEEK_MS)
        await self.pass_time(2.1)
        await member.promote(BILLING)
        (again,) = await self.take(member)
        assert (again.envelope, again.history) == (failed.envelope, HISTORY)
        await self.settle(member, [again], DONE)
        await self.trim_to(store, 0)
        assert await store.replay(BILLING, [dead.job_id]) == [True]
        assert (await self.take(member))[0].envelope == dead.envelope

    # What is trimmed

    async def test_a_trimmed_event_is_not_known_any_more(self, store: Store) -> None:
        item = event("order-7")
        await self.put(store, [item])
        await self.pass_time(0.01)
        await self.trim_to(store, 0)
        with pytest.raises(EventNotFound):
            await store.position(LOG, Position("event", item.job_id))
        assert await store.publish(LOG, [item], may_exist=True) == Published(1)
        assert await self.in_log(store) == [item.job_id]

    @of_each_kind
    async def test_a_trimmed_event_that_is_published_again_comes_again(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        item, member = event("order-7", key="a"), self.member(store)
        for _ in range(2):
            assert await store.publish(LOG, [item], may_exist=True) == Published(1)
            assert await self.handle_all(store, member) == [item.job_id]
            await self.pass_time(0.01)
            await self.trim_to(store, 0)
        await self.settled(store)

    async def test_readers_go_on_with_what_is_kept(self, store: Store) -> None:
        await self.publish(store, 3)
        first, *_ = await store.read(LOG)
        end = await store.position(LOG, NEW)
        await self.pass_time(0.01)
        await self.trim_to(store, 0)
        sent = await self.publish(store, 2)
        for cursor in ("", first.cursor, end):
            assert [item.job_id for item in await store.read(LOG, cursor)] == sent

    async def test_many_are_trimmed_in_steps(self, store: Store) -> None:
        await self.join(store, AUDIT)
        for _ in range(3):
            await self.publish(store, 1000)
        member = self.member(store, AUDIT)
        assert len(await self.handle_all(store, member, queue=AUDIT, at_once=500)) == 3000
        await self.pass_time(0.01)
        await self.trim_to(store, 0)
        assert await store.count(AUDIT) == Counts()
