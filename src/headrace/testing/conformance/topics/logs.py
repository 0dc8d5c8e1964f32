"""Publishing events, and reading a log without a group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.errors import EventNotFound
from headrace.store.contract import Store
from headrace.store.topics import Group, Position, Published
from headrace.store.values import Counts
from headrace.testing.conformance.topics.topic_ground import (
    BILLING,
    LOG,
    NEW,
    START,
    TopicGround,
    event,
    keys,
)


class LogsConformance(TopicGround):
    async def test_events_stand_in_the_log_as_they_were_published(self, store: Store) -> None:
        before = await store.time_ms()
        sent = [event(payload=bytes([0xC4, 1, n]), key="k" if n % 2 else "") for n in range(7)]
        await self.put(store, sent[:4])
        await self.put(store, sent[4:])
        logged = await store.read(LOG)
        assert [(item.job_id, item.envelope) for item in logged] == [
            (item.job_id, item.envelope) for item in sent
        ]
        after = await store.time_ms()
        times = [item.at_ms for item in logged]
        assert times == sorted(times)
        assert before <= times[0] <= times[-1] <= after
        assert (await store.lengths([LOG]))[LOG] == 7

    async def test_publishing_nothing_is_nothing(self, store: Store) -> None:
        assert await store.publish(LOG, []) == Published(0)
        assert (await store.lengths([LOG]))[LOG] == 0
        assert await store.read(LOG) == []

    async def test_a_large_batch_keeps_its_order(self, store: Store) -> None:
        sent = await self.publish(store, 2000)
        assert await self.in_log(store) == sent

    async def test_each_publisher_sees_its_order_kept(self, store: Store) -> None:
        async def publisher() -> list[JobId]:
            return [key for _ in range(10) for key in await self.publish(store, 5)]

        sent = await asyncio.gather(*(publisher() for _ in range(4)))
        logged = await self.in_log(store)
        assert len(logged) == 200
        for mine in sent:
            assert [key for key in logged if key in set(mine)] == mine

    # Ids

    async def test_an_event_published_again_is_not_added(self, store: Store) -> None:
        sent = [event() for _ in range(3)]
        assert await store.publish(LOG, sent[:2]) == Published(2)
        again = await store.publish(LOG, sent, may_exist=True)
        assert again == Published(3, known=(0, 1))
        assert await self.in_log(store) == keys(sent)

    async def test_an_id_that_comes_twice_at_once_is_added_once(self, store: Store) -> None:
        twins = [event("order-7"), event(), event("order-7")]
        assert await store.publish(LOG, twins, may_exist=True) == Published(3, known=(2,))
        assert await self.in_log(store) == keys(twins[:2])

    async def test_an_event_that_its_groups_have_settled_is_still_known(self, store: Store) -> None:
        await self.join(store)
        item = event("order-7")
        await store.publish(LOG, [item], may_exist=True)
        assert await self.handle_all(store, self.member(store)) == [item.job_id]
        assert await store.publish(LOG, [item], may_exist=True) == Published(1, known=(0,))
        await self.settled(store)

    # Later

    async def test_a_delayed_event_is_never_early(self, store: Store) -> None:
        await self.join(store)
        member = self.member(store)
        item = event(delay_ms=400)
        assert await store.publish(LOG, [item]) == Published(1)
        promotion = await member.promote(LOG)
        assert promotion.moved == 0
        assert promotion.next_in is not None
        assert 0 < promotion.next_in <= 0.402
        assert await self.in_log(store) == []
        await self.nothing_left(member)
        await self.pass_time(0.41)
        assert (await member.promote(LOG)).moved == 1
        assert await self.in_log(store) == [item.job_id]
        assert await self.handle_all(store, member) == [item.job_id]

    async def test_due_events_come_in_the_order_of_their_times(self, store: Store) -> None:
        now = await store.time_ms()
        # Both later than the put, also on a slow machine.
        late, early = event(at_ms=now + 1000), event(at_ms=now + 900)
        at_once = event(at_ms=now - 1000)
        await self.put(store, [late, early, at_once])
        await self.pass_time(1.05)
        await self.member(store).promote(LOG)
        assert await self.in_log(store) == keys([at_once, early, late])

    async def test_a_delayed_event_is_added_once(self, store: Store) -> None:
        item = event("order-7", delay_ms=50)
        for known in ((), (0,)):
            assert await store.publish(LOG, [item], may_exist=True) == Published(1, known=known)
        await self.pass_time(0.06)
        await self.member(store).promote(LOG)
        assert await store.publish(LOG, [item], may_exist=True) == Published(1, known=(0,))
        assert await self.in_log(store) == [item.job_id]

    async def test_an_earlier_due_time_of_an_event_is_signalled(self, store: Store) -> None:
        notified = asyncio.Event()
        handle = await self.member(store).on_due(LOG, lambda _: notified.set())
        await asyncio.sleep(0.05)
        notified.clear()
        await self.put(store, [event(delay_ms=60_000)])
        await asyncio.wait_for(notified.wait(), 10)
        await handle.close()

    async def test_a_delayed_event_keeps_its_key(self, store: Store) -> None:
        await self.join(store, group=Group(ordered=True))
        sent = await self.put(store, [event(key="a", delay_ms=30), event(key="a", delay_ms=60)])
        await self.pass_time(0.1)
        member = self.member(store)
        await member.promote(LOG)
        assert [delivery.job_id for delivery in await self.take(member)] == sent[:1]
        await self.nothing_left(member)

    # Reading

    async def test_reading_goes_on_after_a_cursor(self, store: Store) -> None:
        sent = await self.publish(store, 5)
        first = await store.read(LOG, limit=2)
        assert [item.job_id for item in first] == sent[:2]
        rest = await store.read(LOG, first[1].cursor)
        assert [item.job_id for item in rest] == sent[2:]
        assert await store.read(LOG, rest[-1].cursor) == []
        (more,) = await self.publish(store)
        assert [item.job_id for item in await store.read(LOG, rest[-1].cursor)] == [more]

    async def test_a_waiting_read_wakes_for_a_new_event(self, store: Store) -> None:
        await self.publish(store)
        cursor = await store.position(LOG, NEW)
        waiting = asyncio.create_task(store.read(LOG, cursor, wait=30))
        await asyncio.sleep(0.05)
        (key,) = await self.publish(store)
        assert [item.job_id for item in await asyncio.wait_for(waiting, 10)] == [key]

    async def test_a_waiting_read_comes_back_without_one(self, store: Store) -> None:
        assert await store.read(LOG, wait=0.05) == []

    async def test_reading_changes_nothing_for_any_group(self, store: Store) -> None:
        await self.join(store)
        sent = await self.publish(store, 3)
        before = await self.group(store)
        assert await self.in_log(store) == sent
        assert await self.group(store) == before
        assert (before.behind, before.counts) == (3, Counts(waiting=3))
        assert await self.handle_all(store, self.member(store)) == sent

    async def test_a_position_is_where_reading_begins(self, store: Store) -> None:
        old = await self.publish(store, 2)
        await self.pass_time(0.02)
        now = await store.time_ms()
        young = await self.publish(store, 3)
        places: dict[str, tuple[Position, Sequence[JobId]]] = {
            "new": (NEW, []),
            "start": (START, [*old, *young]),
            "event": (Position("event", young[1]), young[1:]),
            "first event": (Position("event", old[0]), [*old, *young]),
            "time": (Position("time", at_ms=now), young),
            "long ago": (Position("time", at_ms=1), [*old, *young]),
            "the future": (Position("time", at_ms=now + 60_000), []),
        }
        found = {}
        for name, (place, _) in places.items():
            cursor = await store.position(LOG, place)
            found[name] = [item.job_id for item in await store.read(LOG, cursor)]
        assert found == {name: list(expected) for name, (_, expected) in places.items()}

    async def test_positions_of_an_empty_log_are_before_what_comes(self, store: Store) -> None:
        places = (NEW, START, Position("time", at_ms=1))
        cursors = [await store.position(LOG, place) for place in places]
        sent = await self.publish(store, 2)
        for cursor in cursors:
            assert [item.job_id for item in await store.read(LOG, cursor)] == sent

    async def test_there_is_no_position_at_an_unknown_event(self, store: Store) -> None:
        await self.publish(store)
        with pytest.raises(EventNotFound):
            await store.position(LOG, Position("event", ids.new_id()))

    # Which logs there are

    async def test_logs_are_known_by_name(self, store: Store) -> None:
        assert await store.logs() == []
        await self.publish(store, log="@orders#1")
        await store.join(BILLING, Group(), NEW)
        await self.publish(store, log="@customers")
        await self.send(store, queue="mail")
        assert await store.logs() == ["@customers", "@orders", "@orders#1"]
        assert await store.queues() == ["mail"]

    async def test_each_shard_is_a_log_of_its_own(self, store: Store) -> None:
        sent = {log: await self.publish(store, 2, log=log) for log in (LOG, "@orders#1")}
        for log, mine in sent.items():
            assert await self.in_log(store, log) == mine
