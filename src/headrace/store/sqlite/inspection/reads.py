"""The store's verbs that only read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.core.job.state import ENDED, State
from headrace.store.sqlite import kv
from headrace.store.sqlite.gates import flow_parts, pauses
from headrace.store.sqlite.inspection import facts, listing, progress_log, survey
from headrace.store.sqlite.topics.topic_store import SqliteTopics
from headrace.store.values import JobIdPage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.capacity import Runner
    from headrace.core.job.ids import JobId
    from headrace.store.contract import DeadJobPage, JobSnapshot
    from headrace.store.flow_values import FlowPart
    from headrace.store.oddities import Oddities
    from headrace.store.values import (
        Control,
        Counts,
        EndedJobPage,
        LogPage,
        MinuteCount,
        QueueState,
        RecordedFact,
    )


class SqliteReads(SqliteTopics):
    """Reads of one consistent state of the database each."""

    _oddities: Oddities

    async def control(self, queue: str) -> Control:
        return await self._find(pauses.control, queue=queue)

    async def flow_part(self, queue: str, flow: JobId, *, members: bool = False) -> FlowPart:
        return await self._find(flow_parts.flow_part, queue=queue, flow=flow, members=members)

    async def log(self, queue: str, job_id: JobId, start: int = 0) -> LogPage:
        now_ms = self._clock.now_ms()
        return await self._find(
            progress_log.log, queue=queue, job_id=job_id, start=start, now_ms=now_ms
        )

    async def once_all(self, queue: str, job_id: JobId) -> dict[str, bytes]:
        return await self._find(progress_log.once_all, queue=queue, job_id=job_id)

    async def browse(
        self,
        queue: str,
        state: State,
        cursor: str = "",
        limit: int = 100,
        *,
        runner: Runner | None = None,
    ) -> JobIdPage:
        if state in ENDED:
            page = await self.history(queue, cursor, limit, state=state)
            return JobIdPage([job.job_id for job in page.jobs], page.cursor)
        return await self._find(
            listing.browse, queue=queue, state=state, cursor=cursor, limit=limit, runner=runner
        )

    async def history(
        self, queue: str, cursor: str = "", limit: int = 100, *, state: State | None = None
    ) -> EndedJobPage:
        return await self._find(
            listing.ended,
            queue=queue,
            cursor=cursor,
            limit=limit,
            state=state,
            now_ms=self._clock.now_ms(),
            oddities=self._oddities,
        )

    async def events(
        self, queue: str, after: str = "", limit: int = 1000, wait: float = 0.0
    ) -> list[RecordedFact]:
        read = partial(
            facts.read,
            namespace=self._namespace,
            queue=queue,
            after=after,
            limit=limit,
            clock=self._clock,
            oddities=self._oddities,
        )
        return await self._database.read_when_notified(("facts", queue), read, wait)

    async def stats(self, queues: Sequence[str], since_minute: int) -> dict[str, list[MinuteCount]]:
        return await self._find(
            facts.stats, queues=queues, since_minute=since_minute, oddities=self._oddities
        )

    async def kv_all(self, space: str) -> dict[str, bytes]:
        now_ms = self._clock.now_ms()
        return await self._find(kv.kv_all, space=space, now_ms=now_ms, oddities=self._oddities)

    async def records(
        self, space: str, before: str, limit: int, *, keep: float
    ) -> list[tuple[str, bytes]]:
        oldest = kv.oldest_name(self._clock.now_ms(), int(keep * 1000))
        return await self._find(kv.records, space=space, before=before, limit=limit, oldest=oldest)

    async def get(
        self, queue: str, job_ids: Sequence[JobId], *, bodies: bool = False
    ) -> list[JobSnapshot | None]:
        now_ms = self._clock.now_ms()
        return await self._find(
            listing.get, queue=queue, job_ids=job_ids, bodies=bodies, now_ms=now_ms
        )

    async def queues(self) -> list[str]:
        return await self._find(listing.queues, oddities=self._oddities)

    async def count(self, queue: str) -> Counts:
        return await self._find(survey.count, queue=queue)

    async def locate(self, queues: Sequence[str], job_id: JobId) -> list[str]:
        now_ms = self._clock.now_ms()
        return await self._find(listing.locate, queues=queues, job_id=job_id, now_ms=now_ms)

    async def survey(self, queues: Sequence[str]) -> list[QueueState]:
        return await self._find(survey.survey, queues=queues)

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadJobPage:
        return await self._find(listing.dead, queue=queue, cursor=cursor, limit=limit)
