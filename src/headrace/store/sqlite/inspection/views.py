"""The store's verbs that only read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.store.sqlite import kv
from headrace.store.sqlite.gates import pauses
from headrace.store.sqlite.inspection import facts, listing, progress_log, survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.clock import Clock
    from headrace.core.job.ids import JobId
    from headrace.core.job.state import State
    from headrace.store.contract import DeadJobPage, JobSnapshot
    from headrace.store.oddities import Oddities
    from headrace.store.sqlite.connection.database import Database
    from headrace.store.values import (
        Control,
        Counts,
        JobIdPage,
        LogPage,
        MinuteCount,
        QueueState,
        RecordedFact,
    )


class SqliteViews:
    """Reads of one consistent state of the database each."""

    _database: Database
    _namespace: str
    _clock: Clock
    _oddities: Oddities

    async def control(self, queue: str) -> Control:
        return await self._database.read(
            partial(pauses.control, namespace=self._namespace, queue=queue)
        )

    async def log(self, queue: str, job_id: JobId, start: int = 0) -> LogPage:
        return await self._database.read(
            lambda connection: progress_log.log(
                connection,
                namespace=self._namespace,
                queue=queue,
                job_id=job_id,
                start=start,
                now_ms=self._clock.now_ms(),
            )
        )

    async def once_all(self, queue: str, job_id: JobId) -> dict[str, bytes]:
        return await self._database.read(
            partial(progress_log.once_all, namespace=self._namespace, queue=queue, job_id=job_id)
        )

    async def browse(
        self, queue: str, state: State, cursor: str = "", limit: int = 100
    ) -> JobIdPage:
        return await self._database.read(
            partial(
                listing.browse,
                namespace=self._namespace,
                queue=queue,
                state=state,
                cursor=cursor,
                limit=limit,
            )
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
        return await self._database.read(
            partial(
                facts.stats,
                namespace=self._namespace,
                queues=queues,
                since_minute=since_minute,
                oddities=self._oddities,
            )
        )

    async def kv_all(self, space: str) -> dict[str, bytes]:
        return await self._database.read(
            lambda connection: kv.kv_all(
                connection,
                namespace=self._namespace,
                space=space,
                now_ms=self._clock.now_ms(),
                oddities=self._oddities,
            )
        )

    async def records(
        self, space: str, before: str, limit: int, *, keep: float
    ) -> list[tuple[str, bytes]]:
        oldest = kv.oldest_name(self._clock.now_ms(), int(keep * 1000))
        return await self._database.read(
            partial(
                kv.records,
                namespace=self._namespace,
                space=space,
                before=before,
                limit=limit,
                oldest=oldest,
            )
        )

    async def get(
        self, queue: str, job_ids: Sequence[JobId], *, bodies: bool = False
    ) -> list[JobSnapshot | None]:
        return await self._database.read(
            lambda connection: listing.get(
                connection,
                namespace=self._namespace,
                queue=queue,
                job_ids=job_ids,
                bodies=bodies,
                now_ms=self._clock.now_ms(),
            )
        )

    async def queues(self) -> list[str]:
        return await self._database.read(
            partial(listing.queues, namespace=self._namespace, oddities=self._oddities)
        )

    async def count(self, queue: str) -> Counts:
        return await self._database.read(
            partial(survey.count, namespace=self._namespace, queue=queue)
        )

    async def locate(self, queues: Sequence[str], job_id: JobId) -> list[str]:
        return await self._database.read(
            lambda connection: listing.locate(
                connection,
                namespace=self._namespace,
                queues=queues,
                job_id=job_id,
                now_ms=self._clock.now_ms(),
            )
        )

    async def survey(self, queues: Sequence[str]) -> list[QueueState]:
        return await self._database.read(
            partial(survey.survey, namespace=self._namespace, queues=queues)
        )

    async def dead(self, queue: str, cursor: str = "", limit: int = 100) -> DeadJobPage:
        return await self._database.read(
            partial(
                listing.dead, namespace=self._namespace, queue=queue, cursor=cursor, limit=limit
            )
        )
