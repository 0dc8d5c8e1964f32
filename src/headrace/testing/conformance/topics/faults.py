"""Consumers of a group that crash, come late or ask twice; unreadable events."""

from __future__ import annotations

import pytest

from headrace.core.job.outcome import DONE, RELEASED, Outcome
from headrace.store.contract import Settlement, Store, reclaim_every
from headrace.store.topics import Group, Published
from headrace.store.values import Counts
from headrace.testing.conformance.ground import LEASE, ids_of, known
from headrace.testing.conformance.jobs.settlement import OUTCOMES
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    NEW,
    TopicGround,
    event,
    of_each_kind,
)

of_each_outcome = pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: type(o).__name__)


class GroupFaultsConformance(TopicGround):
    @of_each_kind
    async def test_an_event_whose_lease_ran_out_goes_to_another(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, BILLING, AUDIT, group=group)
        (sent,) = await self.publish(store, key="a")
        await self.take(self.member(store))
        second = self.member(store)
        taken = await self.reclaim(second, 1, queue=BILLING)
        assert [(each.job_id, each.count) for each in taken] == [(sent, 2)]
        await self.settle(second, taken, DONE)
        await self.settled(store, BILLING)
        assert await store.count(AUDIT) == Counts(waiting=1)

    @of_each_kind
    async def test_an_event_under_lease_is_left_alone(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        holder, other = self.member(store), self.member(store)
        await self.look_regularly(other, LEASE, queue=BILLING)
        await self.publish(store)
        held = await self.take(holder)
        for _ in range(6):
            assert await holder.renew(held) == []
            assert await self.look_regularly(other, LEASE / 4, queue=BILLING) == []
        await self.nothing_left(other)
        assert await self.settle(holder, held, DONE) == []

    @of_each_kind
    async def test_the_lost_lease_of_an_event_cannot_be_renewed(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store)
        late, second = self.member(store), self.member(store)
        lost = await self.take(late)
        again = await self.reclaim(second, 1, queue=BILLING)
        assert await late.renew(lost) == lost
        assert await second.renew(again) == []

    @of_each_kind
    @of_each_outcome
    async def test_settling_an_event_after_reclaim_is_stale(
        self, store: Store, group: Group, outcome: Outcome
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store)
        late, second = self.member(store), self.member(store, name="second")
        lost = await self.take(late)
        again = await self.reclaim(second, 1, queue=BILLING)
        assert await self.settle(late, lost, outcome) == lost
        assert await store.count(BILLING) == Counts(running=1)
        assert await second.renew(again) == []
        assert await self.settle(second, again, DONE) == []
        await self.settled(store)

    @of_each_kind
    @of_each_outcome
    async def test_settling_an_event_twice_is_settling_it_once(
        self, store: Store, group: Group, outcome: Outcome
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store)
        member = self.member(store)
        taken = await self.take(member)
        await self.settle(member, taken, outcome)
        after = await store.count(BILLING)
        repeated = [Settlement(taken[0], outcome)]
        assert await member.settle(BILLING, repeated, repeat=True) == taken
        assert await store.count(BILLING) == after

    @of_each_kind
    async def test_a_batch_of_events_is_settled_but_for_what_was_lost(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store, 4)
        late, second = self.member(store), self.member(store)
        lost = await self.take(late, 2)
        again = await self.reclaim(second, 2, queue=BILLING)
        mine = await self.take(late, 2)
        assert await self.settle(late, [*lost, *mine], DONE) == lost
        assert await store.count(BILLING) == Counts(running=2)
        assert await self.settle(second, again, DONE) == []

    @of_each_kind
    async def test_a_released_event_is_taken_again_and_nothing_is_counted(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        (sent,) = await self.publish(store)
        first, second = self.member(store), self.member(store)
        await self.settle(first, await self.take(first), RELEASED)
        assert await store.count(BILLING) == Counts(waiting=1)
        taken = await second.reclaim(BILLING, 10, last_chance=False) or await second.fetch(10, 0)
        assert [(each.job_id, each.count) for each in known(taken)] == [(sent, 1)]

    @of_each_kind
    async def test_a_member_that_leaves_hands_back_what_it_holds(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 2)
        leaving, staying = self.member(store), self.member(store)
        await self.take(leaving, 2)
        await leaving.close()
        taken = await staying.reclaim(BILLING, 10, last_chance=False) or await staying.fetch(10, 0)
        assert sorted((each.job_id, each.count) for each in known(taken)) == [(k, 1) for k in sent]

    @of_each_kind
    async def test_recover_finds_the_events_that_a_failed_fetch_left(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        sent = await self.publish(store, 3)
        member = self.member(store)
        held = await self.take(member)
        assert len(await member.fetch(2, 0)) == 2
        found = known(await member.recover(held))
        assert sorted((each.job_id, each.count) for each in found) == [(key, 1) for key in sent[1:]]
        assert await member.recover([*held, *found]) == []
        assert await self.settle(member, [*held, *found], DONE) == []
        await self.settled(store)

    @of_each_kind
    async def test_an_event_on_its_last_chance_is_taken_alone(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store, 3)
        await self.take(self.member(store), 3)
        assert len(await self.reclaim(self.member(store), 3, queue=BILLING)) == 3
        third = self.member(store)
        assert len(await self.reclaim(third, 1, queue=BILLING)) == 1
        late = LEASE * 1.5
        assert await self.look_regularly(third, late, last_chance=False, queue=BILLING) == []

    @of_each_kind
    async def test_after_a_pause_of_the_store_holders_of_events_get_time_to_renew(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        holder, other = self.member(store), self.member(store)
        await self.look_regularly(other, LEASE, queue=BILLING)
        await self.publish(store)
        held = await self.take(holder)
        await self.pass_time(LEASE * 2)
        assert await other.reclaim(BILLING, 10, last_chance=True) == []
        assert await holder.renew(held) == []
        await self.pass_time(reclaim_every(LEASE) * 1.1)
        assert await other.reclaim(BILLING, 10, last_chance=True) == []
        assert await self.settle(holder, held, DONE) == []

    # One worker, two consumers

    async def test_consumers_of_one_name_do_not_concern_each_other(self, store: Store) -> None:
        await self.join(store, BILLING, AUDIT)
        (sent,) = await self.publish(store)
        one = self.member(store, BILLING, name="worker-1")
        other = self.member(store, AUDIT, name="worker-1")
        first, second = await self.take(one), await self.take(other)
        assert ids_of([*first, *second]) == [sent, sent]
        assert await one.recover(first) == []
        await one.close()
        assert await other.renew(second) == []
        assert await self.settle(other, second, DONE) == []
        assert await store.count(AUDIT) == Counts()
        assert await store.count(BILLING) == Counts(waiting=1)

    async def test_one_consumer_renews_for_the_others_of_its_worker(self, store: Store) -> None:
        await self.join(store, BILLING, begin=NEW)
        await self.join(store, AUDIT, group=Group(ordered=True), begin=NEW)
        await self.publish(store)
        await self.send(store, queue="mail")
        names = ["mail", BILLING, AUDIT]
        consumers = [self.member(store, queue, name="worker-1") for queue in names]
        held = [delivery for each in consumers for delivery in await self.take(each)]
        rivals = {queue: self.member(store, queue) for queue in names}
        for _ in range(4):
            assert await consumers[0].renew(held) == []
            for queue, rival in rivals.items():
                assert await self.look_regularly(rival, LEASE / 8, queue=queue) == []
        for consumer, delivery in zip(consumers, held, strict=True):
            assert await self.settle(consumer, [delivery], DONE) == []

    # Publishing again

    @of_each_kind
    async def test_events_published_again_come_once(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        events = [event(key="a"), event(), event()]
        sent = await self.put(store, events)
        member = self.member(store)
        for known_ones in range(3):
            taken = await self.take(member)
            assert ids_of(taken) == [sent[known_ones]]
            again = await store.publish(LOG, events, may_exist=True)
            assert again == Published(3, known=(0, 1, 2))
            await self.settle(member, taken, DONE)
        await self.nothing_left(member)
        await self.settled(store)
