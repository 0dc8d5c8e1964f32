"""Unreadable events: delivered with their bytes, so that they can go dead."""

from __future__ import annotations

import msgspec
import pytest

from headrace.core.job import ids
from headrace.core.job.constraints import Constraints
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import peek_id
from headrace.core.job.outcome import DONE, Dead
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason
from headrace.store.contract import Settlement, Store, reclaim_every
from headrace.store.topics import Group
from headrace.store.values import Counts
from headrace.testing.conformance.ground import HISTORY, LEASE, known
from headrace.testing.conformance.topics.topic_ground import (
    BILLING,
    LOG,
    TASK,
    TopicGround,
    event,
    of_each_kind,
)


def unreadable() -> dict[str, bytes]:
    """Bytes in a log that are not an event."""
    pack = msgspec.msgpack.encode
    return {
        "garbage": bytes(range(0xC1, 0x100)),
        "nothing": b"",
        "text": b'{"order": 7}',
        "a newer format": pack([99, ids.new_id(), {"new": "shape"}]),
        "half an envelope": event().envelope[:20],
        "a megabyte": pack([1, ids.new_id(), TASK, b"x" * 1_000_000]),
    }


class ForeignEventsConformance(TopicGround):
    @of_each_kind
    @pytest.mark.parametrize("kind", unreadable())
    async def test_what_cannot_be_read_is_delivered_with_its_bytes(
        self, store: Store, group: Group, kind: str
    ) -> None:
        await self.join(store, group=group)
        data = unreadable()[kind]
        bad = Parcel(ids.new_id(), data, constraints=Constraints(lane="a"))
        await self.put(store, [event(), bad, event(key="b")])
        member = self.member(store)
        taken = [each for _ in range(3) for each in await member.fetch(1, 5)]
        assert [each.envelope for each in taken] == [taken[0].envelope, data, taken[2].envelope]
        known([taken[0], taken[2]])
        taken[1].job_id = peek_id(data)
        settlements = [Settlement(each, DONE) for each in taken]
        settlements[1] = Settlement(taken[1], Dead(Reason.MALFORMED, HISTORY))
        assert await member.settle(BILLING, settlements) == []
        (dead,) = (await store.dead(BILLING)).jobs
        assert (dead.reason, dead.envelope) == ("malformed", data)
        assert await store.count(BILLING) == Counts(dead=1)
        assert [item.envelope for item in await store.read(LOG)][1] == data
        assert await store.purge(BILLING, [dead.job_id]) == [True]
        await self.settled(store)

    @of_each_kind
    async def test_what_cannot_be_read_is_taken_over_like_any_other(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        bad = Parcel(ids.new_id(), b"\xc1", constraints=Constraints(lane="a"))
        await self.put(store, [bad])
        assert len(await self.member(store).fetch(1, 5)) == 1
        second = self.member(store)
        taken: list[LeasedDelivery] = []
        while not taken:
            await self.pass_time(reclaim_every(LEASE) * 1.1)
            taken = await second.reclaim(BILLING, 10, last_chance=True)
        assert [(each.envelope, each.count) for each in taken] == [(b"\xc1", 2)]
        assert await self.settle(second, taken, Dead(Reason.MALFORMED, HISTORY)) == []
        assert await store.count(BILLING) == Counts(dead=1)
