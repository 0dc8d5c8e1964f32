"""What the tests of batches that gather have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from headrace.core.job.capacity import Capacity, Runner
from headrace.core.job.constraints import Constraints, Gathering
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.store.contract import ListenerHandle, Store, StoreConsumer
from headrace.testing.conformance.ground import QUEUE, Ground, known, parcel

HOUR = 3_600_000


def gathering(
    key: str = "a",
    most: int = 3,
    *,
    wait: int = HOUR,
    grace: int = 0,
    priority: int = 0,
) -> Constraints:
    return Constraints(
        priority=priority, gathering=Gathering(f"batch:task:{key}", most, wait, grace)
    )


def some(
    count: int, key: str = "a", most: int = 3, *, runner: Runner = "loop", wait: int = HOUR
) -> list[Parcel]:
    constraints = gathering(key, most, wait=wait)
    return [parcel(constraints=constraints, runner=runner) for _ in range(count)]


def ids(parcels: Sequence[Parcel]) -> list[JobId]:
    return [each.job_id for each in parcels]


class BatchGround(Ground):
    @pytest.fixture(autouse=True)
    async def _no_longer_heeding(self) -> AsyncIterator[None]:
        self._handles: list[ListenerHandle] = []
        yield
        for handle in self._handles:
            await handle.close()

    async def heeding(self, store: Store) -> StoreConsumer:
        """A worker that is notified of changes, as all workers are."""
        worker = self.worker(store)
        self._handles.append(await worker.on_control(QUEUE, lambda _: None))
        return worker

    async def fetch(
        self, worker: StoreConsumer, limit: int = 1, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        """What the first fetch brings that brings something."""
        for _ in range(100):
            if taken := known(await worker.fetch(limit, 0.05, capacity)):
                return taken
        raise AssertionError("nothing came")

    async def gone_by_time(
        self, store: Store, worker: StoreConsumer, least: float, most: float
    ) -> int:
        """Wait until the next batch goes; how many jobs went."""
        promotion = await worker.promote(QUEUE)
        assert promotion.moved == 0
        assert promotion.next_in is not None
        assert least <= promotion.next_in <= most
        await self.pass_time(promotion.next_in + 0.002)
        return (await worker.promote(QUEUE)).moved
