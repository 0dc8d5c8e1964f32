"""What people ask and do about jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from headrace.admin.browsing import JobConditions, JobFilter, Place, sighted, states_meant
from headrace.admin.cancelling import Cancelling, CancelReport
from headrace.admin.desk import Desk
from headrace.admin.jobs import JobDetail, JobPage, JobSummary
from headrace.admin.why import Why
from headrace.admin.why_event import EventWhy, why_logged
from headrace.core import ids as job_ids
from headrace.core import limits
from headrace.core.ids import JobKey
from headrace.core.job import State
from headrace.core.sources import group_source, is_log
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import Sighting

Found = tuple[str, JobKey, Sighting]
"""A queue, and what it has there under a key."""


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
        not the last: there is more as long as it has a cursor, to be given for the next one. Of a
        group, such as `billing@orders`, events: those that it has still to handle, or that are
        dead in it."""
        limits.check_count("limit", limit)
        states = states_meant(state, dead=True)
        place = Place(await self._queue_names(queue), states, cursor)
        store, wanted = await self._store(), JobFilter.of(task, search=search)
        found: dict[JobKey, JobSummary] = {}
        # Up to half: asking for fewer and fewer would take longer and longer.
        while (name := place.queue) is not None and len(found) * 2 < limit:
            page = await place.page(store, name, limit - len(found))
            async for key, seen in sighted(store, name, page.keys):
                if seen.state in states and wanted.matches(key, seen):
                    found[key] = JobSummary.of(name, key, seen)
            place.go_to(page.cursor)
        return JobPage(list(found.values()), str(place))

    async def job(self, id: str, queue: str | None = None) -> JobDetail:
        """All that is known of a job, in whichever queue it is, or of an event that a group has to
        handle; `JobNotFound` if there is none. Several groups may have the same event: `queue`
        says which is meant, else it is one that is not done with it."""
        found = await self._found(id, queue)
        name, key, seen = next((each for each in found if not each[2].state.final), found[0])
        store = await self._store()
        log = await store.log(name, key)
        marks = await store.marks(name, key)
        return JobDetail.whole(JobSummary.of(name, key, seen), seen, log.lines, marks)

    async def log(self, id: str) -> list[str]:
        """The last 1,000 lines that a job wrote with `ctx.log`, kept for a day after the last; also
        of a job that is otherwise forgotten. `JobNotFound` if nothing at all is known of it."""
        store, key = await self._store(), job_ids.to_key(id)
        for queue in await self._sources():
            if lines := (await store.log(queue, key)).lines:
                return lines
        await self._found(id)
        return []

    async def why(self, id: str, queue: str | None = None) -> str:
        """A sentence that says why a job is not running, or how it ended; of an event, one for each
        group that has it, or for the group that `queue` names. `JobNotFound` if there is no such
        job or event."""
        store = await self._store()
        try:
            found = await self._found(id, queue)
        except JobNotFound:
            logs = await store.logs() if queue is None else []
            if (sentence := await why_logged(store, logs, job_ids.to_key(id))) is None:
                raise
            return sentence
        if any(is_log(name) or group_source(name) for name, _, _ in found):
            return " ".join([await EventWhy(store, *each).answer() for each in found])
        name, key, seen = next((each for each in found if not each[2].state.final), found[0])
        return await Why(store, name, key, seen).answer()

    async def cancel(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        **conditions: Unpack[JobConditions],
    ) -> CancelReport:
        """End jobs, whatever state they are in: what has not begun never does, what runs is asked
        to end. Named by id, or else all that fit: at least a queue or a condition must be given.
        An id may be that of an event, in all groups that have taken it, or before it is due.
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
        store = await self._store()
        cancelling = Cancelling(store)
        await cancelling.named(await self._sources(queue), keys)
        if queue is None:
            await cancelling.scheduled(await store.logs(), keys)
        report = cancelling.report(keys)
        if len(keys) == 1 and report.unknown:
            await self._found(report.unknown[0], queue)
            raise ConfigError(
                f"event {report.unknown[0]} is still in its topic's log, out of which no group can "
                "take it: pause the group, or let its handler leave the event alone"
            )
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

    async def _found(self, id: str, queue: str | None = None) -> list[Found]:
        """Where the job is: in one queue, unless it has ended in several, or in groups of a topic;
        or in the log of one, if its time has not come."""
        key = job_ids.to_key(id)
        found = await self._looked(key, await self._queue_names(queue))
        if queue is None and not found:
            found = await self._looked(key, await self._group_queues())
        if queue is None and not found:
            waiting = await self._looked(key, await (await self._store()).logs())
            found = [each for each in waiting if each[2].state is State.SCHEDULED]
        if not found:
            raise JobNotFound(id)
        return found

    async def _looked(self, key: JobKey, queues: Iterable[str]) -> list[Found]:
        store = await self._store()
        found: list[Found] = []
        for queue in queues:
            (seen,) = await store.look(queue, [key], bodies=True)
            if seen is None:
                continue
            found.append((queue, key, seen))
            if not seen.state.final and not group_source(queue):
                break
        return found
