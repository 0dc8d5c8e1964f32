"""Logs with a bound on their events."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headrace.core.job.outcome import DONE, RELEASED, Outcome, Retried
from headrace.store.contract import Store, reclaim_every
from headrace.store.topics import Bound, Group, Published
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, LEASE, known
from headrace.testing.conformance.jobs.settlement import DEAD
from headrace.testing.conformance.topics.topic_ground import (
    AUDIT,
    BILLING,
    LOG,
    TASK,
    TopicGround,
    event,
    keys,
    of_each_kind,
)

FEW = Bound(3)
LATEST = Bound(3, drops_oldest=True)
FIRST = Bound(3, drops_newest=True)


class BoundsConformance(TopicGround):
    async def tallied(self, store: Store, log: str = LOG) -> Counter[str]:
        """The counters of the log, which have the name of its topic."""
        found: Counter[str] = Counter()
        minute = await store.time_ms() // 60_000 - 5
        for each in (await store.stats([log], minute))[log]:
            assert each.task == TASK
            found[each.kind] += each.count
        return found

    @of_each_kind
    async def test_a_full_log_takes_the_first_and_refuses_the_others(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        events = [event() for _ in range(5)]
        assert await store.publish(LOG, events, bound=FEW) == Published(3)
        assert await store.publish(LOG, events[3:], bound=FEW) == Published(0)
        assert await self.in_log(store) == keys(events[:3])
        assert await self.handle_all(store, self.member(store)) == keys(events[:3])

    async def test_what_is_settled_makes_room(self, store: Store) -> None:
        await self.join(store, BILLING, AUDIT)
        events = [event() for _ in range(6)]
        await store.publish(LOG, events[:3], bound=FEW)
        member, other = self.member(store), self.member(store, AUDIT)
        held, quick = await self.take(member, 3), await self.take(other, 3)
        assert await self.settle(other, quick, DONE) == []
        assert await store.publish(LOG, events[3:], bound=FEW) == Published(0)
        assert await self.settle(member, held[:2], DONE) == []
        assert await store.publish(LOG, events[3:], bound=FEW) == Published(2)
        assert await self.in_log(store) == keys(events[2:5])
        assert await self.settle(member, held[2:], DONE) == []
        assert await self.handle_all(store, member) == keys(events[3:5])
        assert await self.handle_all(store, other, queue=AUDIT) == keys(events[3:5])

    async def test_where_nobody_listens_the_oldest_make_room(self, store: Store) -> None:
        events = [event() for _ in range(5)]
        for item in events:
            assert await store.publish(LOG, [item], bound=FEW) == Published(1)
        assert await self.in_log(store) == keys(events[2:])

    @pytest.mark.parametrize("bound", [FEW, LATEST], ids=["reject", "drop"])
    async def test_where_nobody_listens_all_are_taken_and_none_is_missed(
        self, store: Store, bound: Bound
    ) -> None:
        events = [event() for _ in range(9)]
        for some in (events[:5], events[5:7], events[7:]):
            assert await store.publish(LOG, some, bound=bound) == Published(len(some))
            assert (await store.lengths([LOG]))[LOG] == 3
        assert await self.in_log(store) == keys(events[6:])
        assert await self.tallied(store) == {"sent": 9}
        await self.join(store)
        assert (await store.publish(LOG, [event()], bound=bound)).taken == bound.drops_oldest

    async def test_a_smaller_bound_refuses_and_takes_nothing_away(self, store: Store) -> None:
        await self.join(store)
        events = await self.publish(store, 5)
        assert await store.publish(LOG, [event()], bound=FEW) == Published(0)
        assert await store.publish(LOG, [event(delay_ms=60_000)], bound=FEW) == Published(1)
        assert await self.in_log(store) == events

    async def test_events_that_are_known_need_no_room(self, store: Store) -> None:
        await self.join(store)
        events = [event() for _ in range(4)]
        await store.publish(LOG, events[:3], bound=FEW)
        again = await store.publish(LOG, events, bound=FEW, may_exist=True)
        assert again == Published(3, known=(0, 1, 2))
        assert await self.in_log(store) == keys(events[:3])

    async def test_the_newest_are_dropped_and_counted_but_not_what_needs_no_room(
        self, store: Store
    ) -> None:
        await self.join(store)
        events, later = [event() for _ in range(5)], event(delay_ms=60_000)
        assert await store.publish(LOG, events[:4], bound=FIRST) == Published(4, (), 1, (3,))
        known, new = events[0], events[4]
        answer = await store.publish(LOG, [new, later, known], bound=FIRST, may_exist=True)
        assert answer == Published(3, (2,), 1, (0,))
        assert await self.in_log(store) == keys(events[:3])
        assert await self.tallied(store) == {"sent": 4, "dropped": 2}
        member = self.member(store)
        assert await self.settle(member, await self.take(member, 3), DONE) == []
        assert await store.publish(LOG, [new], bound=FIRST) == Published(1)

    async def test_no_more_is_taken_however_many_publish(self, store: Store) -> None:
        await self.join(store)
        answers = await asyncio.gather(
            *(store.publish(LOG, [event() for _ in range(7)], bound=Bound(30)) for _ in range(8))
        )
        assert sum(answer.taken for answer in answers) == 30
        assert (await store.lengths([LOG]))[LOG] == 30

    async def test_each_shard_has_the_bound(self, store: Store) -> None:
        for log, queue in ((LOG, BILLING), ("@orders#1", "billing@orders#1")):
            await self.join(store, queue)
            events = [event() for _ in range(4)]
            assert await store.publish(log, events, bound=FEW) == Published(3)
            assert await self.tallied(store, log) == {"sent": 3}

    async def test_groups_that_are_gone_keep_no_room(self, store: Store) -> None:
        await self.join(store, BILLING, AUDIT)
        events = [event() for _ in range(5)]
        await store.publish(LOG, events[:3], bound=FEW)
        await self.handle_all(store, self.member(store, AUDIT), queue=AUDIT)
        await self.pass_time(0.1)
        assert await store.publish(LOG, events[3:], bound=FEW) == Published(0)
        brief = Bound(3, gone_after_ms=50)
        assert await store.publish(LOG, events[3:], bound=brief) == Published(2)
        assert await self.handle_all(store, self.member(store)) == keys(events[2:])

    # Without the oldest

    @of_each_kind
    async def test_the_oldest_are_dropped_and_counted(self, store: Store, group: Group) -> None:
        await self.join(store, group=group)
        events = [event() for _ in range(5)]
        assert await store.publish(LOG, events[:3], bound=LATEST) == Published(3)
        assert await store.publish(LOG, events[3:], bound=LATEST) == Published(2, dropped=2)
        assert await self.in_log(store) == keys(events[2:])
        assert await self.tallied(store) == {"sent": 5, "dropped": 2}
        state = await self.group(store)
        assert (state.behind, state.counts) == (3, Counts(waiting=3))
        assert await self.handle_all(store, self.member(store)) == keys(events[2:])
        await self.settled(store)

    async def test_of_more_than_the_log_may_hold_the_last_are_kept(self, store: Store) -> None:
        await self.join(store)
        events = [event() for _ in range(8)]
        await store.publish(LOG, events[:2], bound=LATEST)
        answer = await store.publish(LOG, events[2:], bound=LATEST)
        assert (answer.taken, answer.dropped) == (6, 5)
        assert await self.in_log(store) == keys(events[5:])
        assert await self.handle_all(store, self.member(store)) == keys(events[5:])

    async def test_a_smaller_bound_is_reached(self, store: Store) -> None:
        await self.join(store)
        await self.publish(store, 20)
        events = [event() for _ in range(3)]
        for item in events:
            await store.publish(LOG, [item], bound=LATEST)
        assert await self.in_log(store) == keys(events)

    async def test_what_is_settled_goes_first_and_is_not_counted_as_dropped(
        self, store: Store
    ) -> None:
        await self.join(store)
        events = [event() for _ in range(5)]
        await store.publish(LOG, events[:3], bound=LATEST)
        member = self.member(store)
        await self.settle(member, await self.take(member, 2), DONE)
        assert await store.publish(LOG, events[3:], bound=LATEST) == Published(2)
        assert await self.tallied(store) == {"sent": 5}
        assert await self.handle_all(store, member) == keys(events[2:])

    async def test_an_event_that_was_dropped_may_be_published_again(self, store: Store) -> None:
        await self.join(store)
        events = [event() for _ in range(4)]
        await store.publish(LOG, events, bound=LATEST)
        again = await store.publish(LOG, events[:1], bound=LATEST, may_exist=True)
        assert (again.taken, again.known) == (1, ())
        assert await self.in_log(store) == keys([*events[2:], events[0]])

    @of_each_kind
    @pytest.mark.parametrize("outcome", [DONE, RELEASED, DEAD], ids=lambda o: type(o).__name__)
    async def test_who_holds_a_dropped_event_settles_it_without_harm(
        self, store: Store, group: Group, outcome: Outcome
    ) -> None:
        await self.join(store, group=group)
        await store.publish(LOG, [event() for _ in range(3)], bound=LATEST)
        member = self.member(store)
        held = await self.take(member, 2)
        later = [event() for _ in range(3)]
        await store.publish(LOG, later, bound=LATEST)
        await self.settle(member, held, outcome)
        back = known(await member.reclaim(BILLING, 10, last_chance=True))
        await self.settle(member, back, DONE)
        ran = await self.handle_all(store, member)
        assert [key for key in ran if key in keys(later)] == keys(later)
        counts = await store.count(BILLING)
        assert (counts.waiting, counts.running, counts.scheduled, counts.blocked) == (0, 0, 0, 0)

    @of_each_kind
    async def test_a_dropped_event_that_failed_is_still_retried(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        (first,) = await self.publish(store)
        member = self.member(store)
        held = await self.take(member)
        later = [event() for _ in range(3)]
        await store.publish(LOG, later, bound=LATEST)
        assert await self.settle(member, held, Retried(20, HISTORY)) == []
        assert sorted(await self.handle_all(store, member)) == sorted([first, *keys(later)])
        await self.settled(store)

    @of_each_kind
    async def test_a_dropped_event_whose_holder_died_holds_up_nobody(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        await self.publish(store, 2)
        # A brief lease: no clock of a test reaches one whose event the server has dropped.
        await self.take(self.worker(store, "", (BILLING,), lease=0.2), 2)
        later = [event() for _ in range(3)]
        await store.publish(LOG, later, bound=LATEST)
        member = self.member(store)
        assert await self.handle_all(store, member) == keys(later)
        for _ in range(1000):
            found = known(await member.reclaim(BILLING, 10, last_chance=True))
            await self.settle(member, found, DONE)
            if await store.count(BILLING) == Counts():
                break
            await self.pass_time(reclaim_every(LEASE) * 1.1)
            await asyncio.sleep(0.01)
        await self.settled(store)
