"""What people ask and do about jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from headrace.admin.browsing import JobConditions, JobFilter, Place, sighted, states_meant
from headrace.admin.cancelling import Cancelling, CancelReport
from headrace.admin.desk import Desk
from headrace.admin.jobs import JobDetail, JobPage, JobSummary
from headrace.admin.why import Why
from headrace.core import ids as job_ids
from headrace.core import limits
from headrace.core.ids import JobKey
from headrace.core.job import State
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import Sighting


class JobAdmin(Desk):
    """Finding jobs, looking at them, cancelling them."""

    async def jobs(
        self,
        queue: str,
        state: State | str | None = None,
        *,
        task: str | None = None,
        search: str | None = None,
        cursor: str = "",
        limit: int = 100,
    ) -> JobPage:
        """A page of about `limit` jobs of a queue in a state, or in all in which jobs live, one
        after the other. `search` finds a text in ids, arguments and errors. A page may be short and
        not the last: there is more as long as it has a cursor, to be given for the next one."""
        limits.check_name("queue", queue)
        limits.check_count("limit", limit)
        states = states_meant(state, dead=True)
        place, wanted = Place(states, cursor), JobFilter.of(task, search=search)
        store = await self._store()
        found: dict[JobKey, JobSummary] = {}
        # Up to half: asking for fewer and fewer would take longer and longer.
        while place.state is not None and len(found) * 2 < limit:
            page = await place.page(store, queue, limit - len(found))
            async for key, seen in sighted(store, queue, page.keys):
                if seen.state in states and wanted.matches(key, seen):
                    found[key] = JobSummary.of(queue, key, seen)
            place.go_to(page.cursor)
        return JobPage(list(found.values()), str(place))

    async def job(self, id: str) -> JobDetail:
        """All that is known of a job, in whichever queue it is; `JobNotFound` if there is none."""
        queue, key, seen = await self._found(id)
        store = await self._store()
        log = await store.log(queue, key)
        marks = await store.marks(queue, key)
        return JobDetail.whole(JobSummary.of(queue, key, seen), seen, log.lines, marks)

    async def log(self, id: str) -> list[str]:
        """The last 1,000 lines that a job wrote with `ctx.log`, kept for a day after the last; also
        of a job that is otherwise forgotten. `JobNotFound` if nothing at all is known of it."""
        store, key = await self._store(), job_ids.to_key(id)
        for queue in await self._queue_names():
            if lines := (await store.log(queue, key)).lines:
                return lines
        await self._found(id)
        return []

    async def why(self, id: str) -> str:
        """A sentence that says why a job is not running, or how it ended. `JobNotFound` if there is
        no such job."""
        queue, key, seen = await self._found(id)
        return await Why(await self._store(), queue, key, seen).answer()

    async def cancel(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        **conditions: Unpack[JobConditions],
    ) -> CancelReport:
        """End jobs, whatever state they are in: what has not begun never does, what runs is asked
        to end. Named by id, or else all that fit: at least a queue or a condition must be given.
        `JobNotFound` if there is one id and no such job."""
        given = any(value is not None for value in conditions.values())
        if ids is not None:
            if given:
                raise ConfigError("give ids, or state=, task=, flow= and search=, not both")
            return await self._cancel_named([ids] if isinstance(ids, str) else ids, queue)
        if queue is None and not given:
            raise ConfigError("say which jobs: ids, queue=, state=, task=, flow= or search=")
        return await self._cancel_fitting(queue, **conditions)

    async def _cancel_named(self, named: Iterable[str], queue: str | None) -> CancelReport:
        keys = list(dict.fromkeys(job_ids.to_key(id) for id in named))
        cancelling = Cancelling(await self._store())
        await cancelling.named(await self._queue_names(queue), keys)
        report = cancelling.report(keys)
        if len(keys) == 1 and report.unknown:
            raise JobNotFound(report.unknown[0])
        return report

    async def _cancel_fitting(
        self,
        queue: str | None,
        *,
        state: State | str | None = None,
        task: str | None = None,
        flow: str | None = None,
        search: str | None = None,
    ) -> CancelReport:
        states, wanted = states_meant(state, dead=False), JobFilter.of(task, flow, search)
        cancelling = Cancelling(await self._store())
        await cancelling.matching(await self._queue_names(queue), states, wanted)
        return cancelling.report()

    async def _found(self, id: str) -> tuple[str, JobKey, Sighting]:
        """Where the job is; of several that have the id, one that has not ended."""
        store, key = await self._store(), job_ids.to_key(id)
        ended: tuple[str, JobKey, Sighting] | None = None
        for queue in await self._queue_names():
            (seen,) = await store.look(queue, [key], bodies=True)
            if seen is not None and not seen.state.final:
                return queue, key, seen
            if seen is not None and ended is None:
                ended = queue, key, seen
        if ended is None:
            raise JobNotFound(id)
        return ended
