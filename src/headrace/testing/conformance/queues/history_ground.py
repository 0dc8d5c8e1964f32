"""What tests of the history need."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.history_rules import HistoryBounds
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import DONE, Done
from headrace.core.job.state import State
from headrace.core.job.verdict import done_verdict
from headrace.store.contract import Store, StoreConsumer
from headrace.store.values import EndedJob
from headrace.testing.conformance.ground import QUEUE, Ground, parcel

HOUR_MS = 3_600_000
KEEP = HistoryBounds(1000, HOUR_MS)
KEPT = Done(done_verdict(b"\x01"), HOUR_MS)


class HistoryGround(Ground):
    """Short verbs for tests of the history."""

    async def all_ended(self, store: Store, queue: str = QUEUE, limit: int = 100) -> list[EndedJob]:
        """The history, page by page."""
        jobs: list[EndedJob] = []
        cursor = ""
        while True:
            page = await store.history(queue, cursor, limit)
            jobs += page.jobs
            cursor = page.cursor
            if not cursor:
                return jobs

    async def ended_ids(self, store: Store, state: State | None = None) -> list[JobId]:
        """The ids in the history, the latest first; of one state if it is given."""
        ended = await self.all_ended(store)
        return [job.job_id for job in ended if state in (None, job.state)]

    async def do(self, store: Store, count: int = 1, task: str = "task") -> list[JobId]:
        """Have that many jobs done, together."""
        parcels = [parcel(task=task) for _ in range(count)]
        await store.append(QUEUE, parcels)
        taken = await self.take(self.worker(store), count)
        for each in taken:
            each.task = task
        await self.settle_done(self._workers[-1], taken)
        return [each.job_id for each in parcels]

    async def settle_done(self, worker: StoreConsumer, taken: Sequence[LeasedDelivery]) -> None:
        for each in taken:
            each.task = each.task or "task"
        assert await self.settle(worker, taken, DONE) == []
