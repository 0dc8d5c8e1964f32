"""Groups that handle the events of each key in their order."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, RELEASED, Retried
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import State
from headrace.store.contract import Store, StoreConsumer
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, ids_of, known
from headrace.testing.conformance.jobs.settlement import DEAD, RETRIED
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    NEW,
    ORDERED,
    TopicGround,
    event,
    keys,
)

MANY = 2500


def of_keys(names: str) -> list[Parcel]:
    return [event(key=name) for name in names]


def in_order(events: list[Parcel], handled: list[JobId]) -> None:
    """Each event once, those of one key in order."""
    assert sorted(handled) == sorted(keys(events))
    place = {key: number for number, key in enumerate(handled)}
    by_key: dict[str, list[int]] = defaultdict(list)
    for item in events:
        by_key[item.constraints.lane].append(place[item.job_id])
    for name, places in by_key.items():
        assert not name or places == sorted(places), f"the events of {name!r} changed places"


class OrderedConformance(TopicGround):
    async def test_events_of_a_key_are_handled_one_by_one(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 10, key="a")
        member = self.member(store)
        for key in sent:
            taken = await self.take(member)
            assert ids_of(taken) == [key]
            await self.nothing_left(member)
            await self.settle(member, taken, DONE)
        await self.settled(store)

    async def test_keys_go_side_by_side_and_events_without_a_key_wait_for_nobody(
        self, store: Store
    ) -> None:
        await self.join(store, group=ORDERED)
        events = [*of_keys("abcab"), event(), event()]
        await self.put(store, events)
        taken = await self.take(self.member(store), 5)
        assert ids_of(taken) == keys([*events[:3], *events[5:]])

    async def test_one_of_a_key_at_a_time_across_consumers(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        events = of_keys("ab" * 5)
        await self.put(store, events)
        members = [self.member(store) for _ in range(3)]
        for step in range(0, 10, 2):
            found = [(each, d) for each in members for d in known(await each.fetch(10, 0))]
            assert [delivery.job_id for _, delivery in found] == keys(events[step : step + 2])
            for member, delivery in found:
                await self.settle(member, [delivery], DONE)
            members.append(members.pop(0))
        await self.settled(store)

    async def test_a_group_without_order_does_not_wait(self, store: Store) -> None:
        await self.join(store, BILLING)
        sent = await self.publish(store, 5, key="a")
        assert ids_of(await self.take(self.member(store), 5)) == sent

    async def test_any_text_can_be_a_key(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        names = ["ключ 7", "a@b#1", "{x}:", "*", "0", "a" * 250, "\n", "\x00", "a,b|c"]
        events = [event(key=name) for name in names for _ in "12"]
        await self.put(store, events)
        member = self.member(store)
        taken = await self.take(member, len(names))
        assert ids_of(taken) == keys(events[::2])
        await self.settle(member, taken, DONE)
        assert await self.handle_all(store, member) == keys(events[1::2])

    @pytest.mark.parametrize("delay_ms", [0, 50])
    async def test_nobody_passes_an_event_that_is_retried(
        self, store: Store, delay_ms: int
    ) -> None:
        await self.join(store, group=ORDERED)
        events = of_keys("aab")
        await self.put(store, events)
        member = self.member(store)
        first, other = await self.take(member, 2)
        assert (first.job_id, other.job_id) == (events[0].job_id, events[2].job_id)
        for _ in range(2):
            await self.settle(member, [first], Retried(delay_ms, HISTORY))
            if delay_ms:
                await self.nothing_left(member)
            await self.pass_time(0.06)
            await member.promote(BILLING)
            (first,) = await self.take(member)
            assert (first.job_id, first.history) == (events[0].job_id, HISTORY)
            await self.nothing_left(member)
        await self.settle(member, [first], DONE)
        assert ids_of(await self.take(member)) == [events[1].job_id]

    async def test_nobody_passes_an_event_that_is_released(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 2, key="a")
        member, other = self.member(store), self.member(store)
        await self.settle(member, await self.take(member), RELEASED)
        taken = await other.reclaim(BILLING, 9, last_chance=False) + await other.fetch(9, 0)
        assert ids_of(known(taken)) == sent[:1]

    async def test_nobody_passes_an_event_that_is_taken_over(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 2, key="a")
        dying, other = self.member(store), self.member(store)
        lost = await self.take(dying)
        again = await self.reclaim(other, 1, queue=BILLING)
        assert ids_of(again) == sent[:1]
        assert await self.settle(dying, lost, DONE) == lost
        await self.nothing_left(other)
        await self.nothing_left(dying)
        await self.settle(other, again, DONE)
        assert ids_of(await self.take(other)) == sent[1:]

    async def test_a_cancelled_event_lets_the_next_one_go(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 2, key="a")
        member = self.member(store)
        await self.settle(member, await self.take(member), RETRIED)
        await self.nothing_left(member)
        assert await store.cancel(BILLING, sent[:1]) == [State.CANCELLED]
        assert ids_of(await self.take(member)) == sent[1:]

    async def test_many_keys_keep_their_order(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        events = [event(key=f"key-{number % 100}") for number in range(1000)]
        await self.put(store, events)
        in_order(events, await self.handle_all(store, self.member(store), at_once=70))
        await self.settled(store)

    async def test_order_holds_while_events_are_published_and_consumers_rival(
        self, store: Store
    ) -> None:
        await self.join(store, group=ORDERED, begin=NEW)
        events = [event(key=f"key-{number % 7}") for number in range(420)]
        handled: list[JobId] = []
        busy: dict[bytes, LeasedDelivery] = {}
        key_of = {item.job_id: item.constraints.lane.encode() for item in events}

        async def rival(member: StoreConsumer) -> None:
            while len(handled) < len(events):
                for delivery in known(await member.fetch(5, 0.05)):
                    lane = key_of[delivery.job_id]
                    assert lane not in busy, "two events of a key at a time"
                    busy[lane] = delivery
                    handled.append(delivery.job_id)
                    await asyncio.sleep(0)
                    del busy[lane]
                    assert await self.settle(member, [delivery], DONE) == []

        async def publisher() -> None:
            for at in range(0, len(events), 6):
                await self.put(store, events[at : at + 6])

        rivals = [rival(self.member(store)) for _ in range(3)]
        await asyncio.wait_for(asyncio.gather(publisher(), *rivals), 60)
        in_order(events, handled)
        await self.settled(store)

    async def test_a_busy_key_keeps_nobody_else_waiting(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        busy = [event(key="busy") for _ in range(MANY)]
        quiet = event(key="quiet")
        await self.put(store, busy)
        await self.put(store, [quiet])
        member = self.member(store)
        taken = await self.take(member, 2)
        assert ids_of(taken) == [busy[0].job_id, quiet.job_id]

    async def test_one_group_in_order_does_not_hold_up_another(self, store: Store) -> None:
        await self.join(store, BILLING, group=ORDERED)
        await self.join(store, AUDIT)
        sent = await self.publish(store, 5, key="a")
        member, other = self.member(store), self.member(store, AUDIT)
        await self.settle(member, await self.take(member), RETRIED)
        assert ids_of(await self.take(other, 5)) == sent

    async def test_a_dead_event_is_skipped_if_the_group_wants_so(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        sent = await self.publish(store, 3, key="a")
        member = self.member(store)
        await self.settle(member, await self.take(member), DEAD)
        assert await store.stopped_keys(BILLING) == []
        assert await self.handle_all(store, member) == sent[1:]
        assert await store.count(BILLING) == Counts(dead=1)
        assert await store.replay(BILLING, sent[:1]) == [True]
        assert await self.handle_all(store, member) == sent[:1]

    async def test_a_group_of_a_key_counts_all_that_it_still_has_to_do(self, store: Store) -> None:
        await self.join(store, group=ORDERED)
        await self.publish(store, 5, key="a")
        member = self.member(store)
        taken = await self.take(member)
        state = await self.group(store)
        assert state.counts.running == 1
        assert state.counts.waiting + state.counts.blocked == 4
        assert state.oldest_ms == (await store.read(LOG))[0].at_ms
        await self.settle(member, taken, DONE)
        assert (await self.group(store)).oldest_ms == (await store.read(LOG))[1].at_ms
