"""Outcomes of an event in one group, which no other group sees."""

from __future__ import annotations

import pytest

from headrace.core.job.history import decode_history
from headrace.core.job.outcome import DONE, Held, Outcome, Retried, task_gate
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.contract import Settlement, Store
from headrace.store.topics import Group
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, ids_of
from headrace.testing.conformance.jobs.settlement import CANCELLED, DEAD, OUTCOMES, RETRIED
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    TASK,
    TopicGround,
    event,
    of_each_kind,
)


class GroupSettlementConformance(TopicGround):
    @of_each_kind
    async def test_an_event_is_retried_in_the_group_where_it_failed(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store)
        member, other = self.member(store), self.member(store, AUDIT)
        taken = await self.take(member)
        before = await store.time_ms()
        await self.settle(member, taken, Retried(400, HISTORY))
        snapshot = await self.snapshot(store, sent, BILLING)
        assert snapshot.state is State.SCHEDULED
        assert snapshot.due_ms is not None
        assert snapshot.due_ms >= before + 400
        assert (await member.promote(BILLING)).moved == 0
        await self.nothing_left(member)
        assert await self.handle_all(store, other, queue=AUDIT) == [sent]
        await self.pass_time(0.41)
        await member.promote(BILLING)
        (again,) = await self.take(member)
        assert (again.job_id, again.envelope) == (sent, taken[0].envelope)
        assert (again.history, again.count) == (HISTORY, 1)
        await self.settle(member, [again], DONE)
        await self.nothing_left(other)
        await self.settled(store, BILLING, AUDIT)

    @of_each_kind
    async def test_an_event_again_at_once_is_a_new_delivery(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        for _ in range(3):
            await self.settle(member, await self.take(member), Retried(0, HISTORY))
        (delivery,) = await self.take(member)
        assert (delivery.job_id, delivery.history, delivery.count) == (sent, HISTORY, 1)

    @of_each_kind
    async def test_a_dead_event_is_kept_whole_in_its_group(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        sent = event(key="a")
        await self.put(store, [sent])
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        (dead,) = (await store.dead(BILLING)).jobs
        assert (dead.job_id, dead.reason) == (sent.job_id, "rejected")
        assert (dead.envelope, dead.history) == (sent.envelope, HISTORY)
        assert await store.count(BILLING) == Counts(dead=1)
        assert (await store.dead(AUDIT)).jobs == []
        assert await store.count(AUDIT) == Counts(waiting=1)

    @of_each_kind
    async def test_a_dead_event_is_replayed_in_its_group_once(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        sent = await self.publish(store, 3)
        member, other = self.member(store), self.member(store, AUDIT)
        assert await self.handle_all(store, member, DEAD) == sent
        await self.handle_all(store, other, queue=AUDIT)
        assert await store.replay(AUDIT, sent) == [False] * 3
        assert await store.replay(BILLING, sent[:2]) == [True] * 2
        assert await store.replay(BILLING, sent[:2]) == [False] * 2
        taken = await self.take(member, 2)
        assert [(each.job_id, each.count) for each in taken] == [(key, 1) for key in sent[:2]]
        assert {decode_history(each.history).deliveries for each in taken} == {0}
        await self.settle(member, taken, DONE)
        assert await store.purge(BILLING, sent) == [False, False, True]
        await self.nothing_left(other)
        await self.settled(store, BILLING, AUDIT)

    @of_each_kind
    async def test_a_dead_event_is_replayed_with_other_bytes(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        sent, mended = event("order-7", payload=b"\x01"), event("order-7", payload=b"\x02")
        await self.put(store, [sent])
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        assert await store.replay(BILLING, [sent.job_id], [mended.envelope]) == [True]
        assert (await self.take(member))[0].envelope == mended.envelope
        assert (await self.take(self.member(store, AUDIT)))[0].envelope == sent.envelope

    async def test_all_kinds_of_outcome_in_one_batch_of_events(self, store: Store) -> None:
        await self.join(store)
        await self.publish(store, 6)
        member = self.member(store)
        taken = await self.take(member, 6)
        pairs = zip(taken, OUTCOMES, strict=True)
        batch = [Settlement(delivery, outcome) for delivery, outcome in pairs]
        assert await member.settle(BILLING, batch) == []
        assert await store.count(BILLING) == Counts(waiting=2, scheduled=1, dead=1)

    @of_each_kind
    async def test_a_large_batch_of_events_is_settled(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        await self.publish(store, 1500)
        member = self.member(store)
        taken = await self.take(member, 1500)
        assert await self.settle(member, taken, DONE) == []
        await self.settled(store)

    # Pausing

    @of_each_kind
    async def test_a_paused_group_stands_still_alone(self, store: Store, group: Group) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        member, other = self.member(store), self.member(store, AUDIT)
        await self.nothing_left(member)
        async with self.heeded(member, BILLING):
            await store.pause(BILLING)
        sent = await self.publish(store, 3)
        assert await member.fetch(10, 0.05) == []
        assert await store.count(BILLING) == Counts(waiting=3)
        assert await self.handle_all(store, other, queue=AUDIT) == sent
        async with self.heeded(member, BILLING):
            await store.resume(BILLING)
        assert await self.handle_all(store, member) == sent

    @of_each_kind
    async def test_events_held_for_a_paused_task_go_on_with_it(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 3)
        await store.pause(BILLING, TASK)
        member = self.member(store)
        for delivery in await self.take(member, 3):
            assert await self.settle(member, [delivery], Held(task_gate(TASK), HISTORY)) == []
        assert await store.count(BILLING) == Counts(blocked=3)
        await store.resume(BILLING, TASK)
        await member.promote(BILLING)
        again = await self.take(member, 3)
        assert ids_of(again) == sent
        assert [(each.history, each.count) for each in again] == [(HISTORY, 1)] * 3

    # Cancelling

    @of_each_kind
    async def test_an_event_that_waits_for_its_retry_can_be_cancelled(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        await self.settle(member, await self.take(member), RETRIED)
        assert await store.cancel(BILLING, [sent]) == [State.CANCELLED]
        snapshot = await self.snapshot(store, sent, BILLING)
        assert decode_verdict(snapshot.verdict).state is State.CANCELLED
        assert await store.count(BILLING) == Counts()
        other = self.member(store, AUDIT)
        assert await self.handle_all(store, other, queue=AUDIT) == [sent]

    @of_each_kind
    async def test_an_event_that_is_handled_can_be_asked_to_end(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        await self.end(store, member, await self.take(member), CANCELLED)
        await self.nothing_left(member)
        assert await store.count(BILLING) == Counts()
        assert await store.count(AUDIT) == Counts(waiting=1)
        assert await self.states(store, [sent], BILLING) == [State.CANCELLED]

    @of_each_kind
    @pytest.mark.parametrize("outcome", [DONE, DEAD], ids=["done", "dead"])
    async def test_an_event_that_ends_by_itself_first_has_ended(
        self, store: Store, group: Group, outcome: Outcome
    ) -> None:
        await self.join(store, group=group)
        (sent,) = await self.publish(store)
        member = self.member(store)
        taken = await self.take(member)
        assert await store.cancel(BILLING, [sent]) == [State.RUNNING]
        assert (await store.control(BILLING)).cancelling == (sent,)
        assert await self.settle(member, taken, outcome) == []
        assert (await store.control(BILLING)).cancelling == ()
        assert await store.count(BILLING) == Counts(dead=1 if outcome is DEAD else 0)

    # Facts

    @of_each_kind
    async def test_each_group_has_a_history_of_its_own(self, store: Store, group: Group) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        sent = await self.publish(store, 3)
        member = self.member(store)
        taken = await self.take(member, 3)
        outcomes: list[Outcome] = [DONE, RETRIED, DEAD]
        batch = zip(taken, outcomes, strict=True)
        await member.settle(BILLING, [Settlement(*pair) for pair in batch])
        facts = [item.fact for item in await store.events(BILLING)]
        recorded = {
            (fact.job_id, fact.kind) for fact in facts if fact.kind in ("done", "retry", "dead")
        }
        assert recorded == set(zip(sent, ["done", "retry", "dead"], strict=True))
        minute = await store.time_ms() // 60_000 - 1
        counts = (await store.stats([BILLING], minute))[BILLING]
        counted = {(each.task, each.kind) for each in counts}
        assert {(TASK, kind) for kind in ("done", "retry", "dead")} <= counted
        assert not [
            item for item in await store.events(AUDIT) if item.fact.kind in ("done", "dead")
        ]
