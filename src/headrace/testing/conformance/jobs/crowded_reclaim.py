"""Taking over jobs that are behind many that are well."""

from __future__ import annotations

from headrace.store.contract import Store
from headrace.store.topics import Group
from headrace.testing.conformance.ground import QUEUE
from headrace.testing.conformance.topics.topic_ground import BILLING, TopicGround, of_each_kind

_AHEAD = 5000
_TOGETHER = 1000
_LONG_LEASE = 600.0
# Six are made in a lease. After a first look nobody may take anything for a lease.
_MOST_LOOKS = 9


class CrowdedConformance(TopicGround):
    async def hold_many(self, store: Store, queue: str) -> None:
        """Have one worker hold all there is, which is much, and for long."""
        keeper = store.consumer("keeper", [queue], _LONG_LEASE)
        self._workers.append(keeper)
        held = 0
        while held < _AHEAD:
            held += len(await keeper.fetch(_AHEAD - held, 10))

    async def test_abandoned_jobs_are_found_behind_thousands_that_are_well(
        self, store: Store
    ) -> None:
        for _ in range(_AHEAD // _TOGETHER):
            await self.send(store, _TOGETHER)
        await self.hold_many(store, QUEUE)
        await self.send(store, 3)
        await self.take(self.worker(store, "dies"), 3)
        assert await self.looks_until(self.worker(store, "other"), 3, QUEUE) <= _MOST_LOOKS

    @of_each_kind
    async def test_abandoned_events_are_found_behind_thousands_that_are_well(
        self, store: Store, group: Group
    ) -> None:
        await self.join(store, group=group)
        for _ in range(_AHEAD // _TOGETHER):
            await self.publish(store, _TOGETHER)
        await self.hold_many(store, BILLING)
        await self.publish(store, 3)
        await self.take(self.member(store, name="dies"), 3)
        looks = await self.looks_until(self.member(store, name="other"), 3, BILLING)
        assert looks <= _MOST_LOOKS
