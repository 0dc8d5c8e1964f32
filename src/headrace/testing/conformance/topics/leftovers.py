"""When all events are settled and trimmed and the groups are disbanded, nothing is left."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, RELEASED, Held, Outcome, Retried, task_gate
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer
from headrace.store.topics import Bound, Group
from headrace.store.values import Control, Counts, Report
from headrace.testing.conformance.ground import HISTORY, LEASE, known
from headrace.testing.conformance.jobs.leftovers import BRIEF, LeftoversConformance
from headrace.testing.conformance.jobs.settlement import DEAD
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

GROUPS = (BILLING, AUDIT)
BRIEFLY_DEAD = msgspec.structs.replace(DEAD, ttl_ms=BRIEF)
of_each_policy = pytest.mark.parametrize(
    "group",
    [Group(ordered=True, on_failure="block"), Group(ordered=True, on_failure="fail_key")],
    ids=["block", "fail_key"],
)


class TopicLeftoversConformance(TopicGround, LeftoversConformance):
    async def all_ends(self, store: Store, *members: StoreConsumer) -> None:
        """The log is trimmed, the workers leave, the groups are disbanded: nothing is left."""
        await self.pass_time(BRIEF / 1000 * 2)
        await self.trim_to(store, 0)
        for member in members:
            await member.close()
        for queue in GROUPS:
            await store.disband(queue)
            assert await store.count(queue) == Counts()
            for state in State:
                assert (await store.browse(queue, state)).job_ids == []
        assert (await store.groups([LOG]))[LOG] == []
        assert await self.left_behind(store) == []

    @of_each_kind
    async def test_nothing_is_left_of_events_that_are_done(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, *GROUPS, group=group)
        events = [event(key="abc"[n % 3] if n % 2 else "") for n in range(20)]
        events += [event(delay_ms=30, key="a"), event(delay_ms=30)]
        await self.put(store, events)
        await self.pass_time(0.05)
        members = [self.member(store, queue) for queue in GROUPS]
        await members[0].promote(LOG)
        for queue, member in zip(GROUPS, members, strict=True):
            ran = await self.handle_all(store, member, queue=queue, at_once=7)
            assert len(ran) == len(events)
            assert await member.reclaim(queue, 10, last_chance=True) == []
        await self.all_ends(store, *members)

    @of_each_kind
    async def test_nothing_is_left_of_groups_that_end_in_the_middle(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, *GROUPS, group=group)
        await self.put(store, [event(key="ab"[n % 2]) for n in range(6)])
        await self.put(store, [event() for _ in range(6)])
        members = [self.member(store, queue) for queue in GROUPS]
        outcomes: list[Outcome] = [BRIEFLY_DEAD, Retried(60_000, HISTORY), RELEASED]
        for member in members:
            taken = await self.take(member, 5)
            for delivery, outcome in zip(taken, outcomes, strict=False):
                await self.settle(member, [delivery], outcome)
            await member.close()
        for queue in GROUPS:
            assert await store.disband(queue)
        await self.all_ends(store)

    @of_each_kind
    async def test_nothing_is_left_of_what_events_went_through(
        self, store: Store, group: Group
    ) -> None:
        """Retries, releases, crashes, pauses, reports, markers, deaths, replays and rewinding."""
        await self.join(store, group=group)
        await self.put(store, [event(key=key) for key in ("a", "a", "b", "c", "")])
        dying, member = self.member(store), self.member(store)
        await self.take(dying, 3)
        again = await self.reclaim(member, 3, queue=BILLING)
        await self.go_through(store, member, again)
        await store.rewind(BILLING, START)
        dead = await self.handle_all(store, member, BRIEFLY_DEAD)
        assert len(dead) == 5
        assert await store.replay(BILLING, dead[:2]) == [True] * 2
        await self.handle_all(store, member)
        assert await store.purge(BILLING, dead[2:]) == [True] * 3
        assert await self.look_regularly(member, LEASE, queue=BILLING) == []
        await self.settled(store)
        await self.all_ends(store, member, dying)

    async def go_through(
        self, store: Store, member: StoreConsumer, deliveries: Sequence[LeasedDelivery]
    ) -> None:
        held, failed, released = deliveries
        for delivery in deliveries:
            await store.report(BILLING, [Report(delivery.job_id, b"\x91\x01")])
            await store.once_set(BILLING, delivery.job_id, "charge", b"\x01")
        await store.pause(BILLING, TASK)
        await self.settle(member, [held], Held(task_gate(TASK), HISTORY))
        await store.resume(BILLING, TASK)
        await self.settle(member, [failed], Retried(10, HISTORY))
        await self.settle(member, [released], RELEASED)
        back = known(await member.reclaim(BILLING, 9, last_chance=True))
        await self.settle(member, back, DONE)
        await self.pass_time(0.02)
        await self.handle_all(store, member)

    @of_each_kind
    async def test_nothing_is_left_of_a_group_that_ends_while_it_is_paused(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, *GROUPS, group=group)
        await self.put(store, [event(key=key) for key in ("a", "a", "b", "", "")])
        members = [self.member(store, queue) for queue in GROUPS]
        for queue, member in zip(GROUPS, members, strict=True):
            taken = await self.take(member, 3)
            await store.pause(queue, TASK)
            await store.pause(queue, "another")
            await store.pause(queue)
            await self.settle(member, taken[:2], Held(task_gate(TASK), HISTORY))
            assert (await store.count(queue)).blocked >= 2
            await store.cancel(queue, [taken[2].job_id])
            assert await store.disband(queue)
            assert await store.control(queue) == Control()
        await self.all_ends(store, *members)

    @of_each_policy
    async def test_nothing_is_left_of_stopped_keys(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        await self.put(store, [event(key=key) for key in "aabb"])
        member = self.member(store)
        await self.settle(member, await self.take(member, 2), BRIEFLY_DEAD)
        await self.handle_all(store, member)
        assert await store.free_key(BILLING, "a")
        await self.handle_all(store, member)
        assert len(await store.stopped_keys(BILLING)) == 1
        await member.close()
        await store.disband(BILLING)
        await self.all_ends(store)

    @of_each_kind
    async def test_nothing_is_left_of_dropped_events(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        member = self.member(store)
        for _ in range(4):
            events = [event(key=key) for key in "abc"]
            await store.publish(LOG, events, bound=Bound(4, drops_oldest=True))
            await self.settle(member, known(await member.fetch(2, 0)), DONE)
        await self.handle_all(store, member)
        await self.all_ends(store, member)
