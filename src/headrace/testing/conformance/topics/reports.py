"""Progress, log lines and once markers of events in a group."""

from __future__ import annotations

from headrace.core.job.outcome import DONE, RELEASED, Retried
from headrace.store.contract import Store
from headrace.store.topics import Group
from headrace.store.values import LogPage, Report
from headrace.testing.conformance.ground import HISTORY, known
from headrace.testing.conformance.jobs.reports import HALF
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    START,
    TopicGround,
    of_each_kind,
)


class GroupReportsConformance(TopicGround):
    @of_each_kind
    async def test_an_event_that_is_handled_tells_of_itself_in_its_group(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store, key="a")
        member, other = self.member(store), self.member(store, AUDIT)
        taken, others = await self.take(member), await self.take(other)
        await store.report(BILLING, [Report(sent, b"\x91\x01", ("one",))])
        await store.report(BILLING, [Report(sent, HALF, ("two", "three"))])
        assert (await self.snapshot(store, sent, BILLING)).progress == HALF
        assert await store.log(BILLING, sent) == LogPage(["one", "two", "three"], 3)
        assert (await self.snapshot(store, sent, AUDIT)).progress == b""
        assert await store.log(AUDIT, sent) == LogPage([], 0)
        await self.settle(other, others, DONE)
        assert (await self.snapshot(store, sent, BILLING)).progress == HALF
        await self.settle(member, taken, DONE)
        assert await store.get(BILLING, [sent]) == [None]
        assert (await store.log(BILLING, sent)).lines == ["one", "two", "three"]

    @of_each_kind
    async def test_progress_of_an_event_is_gone_when_it_is_handled(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        taken = await self.take(member)
        await store.report(BILLING, [Report(sent, HALF)])
        await self.settle(member, taken, DONE)
        await store.rewind(BILLING, START)
        taken = await self.take(member)
        assert (await self.snapshot(store, sent, BILLING)).progress == b""
        await self.settle(member, taken, DONE)

    @of_each_kind
    async def test_marks_of_an_event_are_kept_until_it_is_handled(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store, key="a")
        member = self.member(store)
        taken = await self.take(member)
        assert await store.once_all(BILLING, sent) == {}
        await store.once_set(BILLING, sent, "charge", b"\x01")
        await store.once_set(BILLING, sent, "mail", b"")
        for outcome in (RELEASED, Retried(0, HISTORY), Retried(50, HISTORY), DEAD):
            await self.settle(member, taken, outcome)
            assert await store.once_all(BILLING, sent) == {"charge": b"\x01", "mail": b""}
            await self.pass_time(0.06)
            await member.promote(BILLING)
            if outcome is DEAD:
                await store.replay(BILLING, [sent])
            taken = known(await member.reclaim(BILLING, 9, last_chance=True))
            taken = taken or await self.take(member)
        assert await store.once_all(BILLING, sent) == {"charge": b"\x01", "mail": b""}
        assert await store.once_all(AUDIT, sent) == {}
        await self.settle(member, taken, DONE)
        assert await store.once_all(BILLING, sent) == {}

    @of_each_kind
    async def test_an_event_that_comes_again_has_no_marks(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        taken = await self.take(member)
        await store.once_set(BILLING, sent, "charge", b"\x01")
        await self.settle(member, taken, DONE)
        await store.rewind(BILLING, START)
        await self.take(member)
        assert await store.once_all(BILLING, sent) == {}

    @of_each_kind
    async def test_what_is_told_too_late_is_forgotten(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        await self.settle(member, await self.take(member), DONE)
        await store.report(BILLING, [Report(sent, HALF, ("late",))])
        await store.once_set(BILLING, sent, "charge", b"\x01")
        assert await store.get(BILLING, [sent]) == [None]
        assert await store.once_all(BILLING, sent) == {}
        assert await store.log(BILLING, sent) == LogPage([], 0)
