"""Questions and actions about jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Unpack

import msgspec

from headrace.admin.bodies import opened
from headrace.admin.context import AdminContext
from headrace.admin.filters import JobConditions, JobFilter
from headrace.admin.jobs.cancel_request import CancelReport, CancelRequest
from headrace.admin.jobs.listing import (
    ENDED_TOGETHER,
    READ_TOGETHER,
    MatchingJobs,
    states_meant,
)
from headrace.admin.jobs.received import received_by
from headrace.admin.jobs.summary import JobDetail, JobPage, JobSummary
from headrace.admin.jobs.why import Why
from headrace.admin.jobs.why_event import EventWhy, why_logged
from headrace.admin.matcher import JobMatcher
from headrace.admin.pages import PageScan, Walk
from headrace.admin.recorded import recorded
from headrace.admin.redaction import masked_progress
from headrace.client.attempts import run_started
from headrace.client.fallback import unknown_rule
from headrace.client.watch import JobUpdate
from headrace.core import bounds as limits
from headrace.core.job import ids as id_codec
from headrace.core.job.constraints import decode_constraints
from headrace.core.job.envelope import id_and_task, is_newer
from headrace.core.job.ids import JobId
from headrace.core.job.state import ENDED, State
from headrace.core.masking import NOTHING_HIDDEN, Masks
from headrace.core.queue_names import group_source, is_log
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import JobSnapshot

_CONDITIONS = "state=, task=, flow=, search=, since="

Found = tuple[str, JobId, JobSnapshot]
"""A queue, and a job in it."""


def unfinished(found: Sequence[Found]) -> Found:
    """The first that has not ended, or else the first."""
    return next((each for each in found if not each[2].state.final), found[0])


def _ended(job: JobSummary) -> float:
    return job.ended.timestamp() if job.ended else 0.0


class JobAdmin(AdminContext):
    """Finds jobs, shows and explains them, and cancels them."""

    async def jobs(
        self,
        queue: str | None = None,
        state: State | str | None = None,
        *,
        cursor: str = "",
        limit: int = 100,
        scan: int | None = None,
        **conditions: Unpack[JobConditions],
    ) -> JobPage:
        """A page of about `limit` jobs of a queue, or of all queues and groups, in one state, or in
        all unfinished ones in turn. `done` and `cancelled` are those of the history, the latest of
        each queue first. `search` finds a text in ids, arguments and errors; `since` and
        `until` are when they were sent. A short page may not be the last: there is more as long as
        it has a cursor, to be given for the next one. For a group, such as `billing@orders`, these
        are the events that it has not handled, or that are dead in it.

        With `scan`, examines about that many jobs, in at most 50 reads of up to 100 jobs.

        Args:
            queue: A queue, or a group such as `billing@orders`. All unless said.
            state: A state; all unfinished ones unless said.
            cursor: That of the page before; the first page unless said.
            limit: About how many are on a page.
            scan: How many are examined at most.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            flow: The id of a flow's last job, for all jobs of that flow.
        """
        limits.check_count("limit", limit)
        if scan is not None:
            limits.check_count("scan", scan)
        states = states_meant(state, final=True)
        wanted = await self._with_group(JobFilter(queue=queue, **conditions))
        walk = await self._walk(wanted.queue, bounded=scan is not None)
        matcher = await JobMatcher.of(await self._store(), wanted, self._redaction, self._app)
        page = await self._scan_of(walk, states, matcher, limit, scan)
        following = await page.fill(states, cursor)
        # One that moved on meanwhile may be met in both states.
        found = {(job.queue, job.id): job for job in page.found}
        return JobPage(list(found.values()), following, page.looked)

    async def latest(
        self, state: State | str, *, limit: int = 100, **conditions: Unpack[JobConditions]
    ) -> list[JobSummary]:
        """The jobs of all queues and groups that ended last in a state (`done`, `cancelled` or
        `dead`), the latest first. Reads up to `limit` of each queue that match.

        Args:
            state: "done", "cancelled" or "dead".
            limit: How many at most.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            flow: The id of a flow's last job, for all jobs of that flow.
        """
        limits.check_count("limit", limit)
        store, states = await self._store(), states_meant(state, final=True)
        wanted = await self._with_group(JobFilter(**conditions))
        matcher = await JobMatcher.of(store, wanted, self._redaction, self._app)
        found: list[JobSummary] = []
        # As the store names them: someone else may have written a name that is not valid.
        for name in await self._sources(wanted.queue):
            walk = Walk(store, [name], [], bounded=False)
            page = await self._scan_of(walk, states, matcher, limit)
            await page.fill(states, "")
            if page.found:
                found = sorted([*found, *page.found], key=_ended, reverse=True)[:limit]
        return found

    async def _scan_of(
        self,
        walk: Walk,
        states: Sequence[State],
        matcher: JobMatcher,
        limit: int,
        scan: int | None = None,
    ) -> PageScan[JobSummary]:
        """What fills a page with the jobs of a walk that match."""
        together = ENDED_TOGETHER if states[0] in ENDED else READ_TOGETHER
        jobs = MatchingJobs(await self._store(), states, matcher)
        return PageScan(walk, jobs.read, limit, scan, None if matcher.is_open else together)

    async def job(self, id: str, queue: str | None = None) -> JobDetail:
        """All that is known of a job, whatever its queue, or of an event that a group has to
        handle; `JobNotFound` if there is none. Several groups may have the same event: `queue`
        chooses one, by default one that is not done with it.

        Args:
            id: The id of a job or an event.
            queue: The queue, or the group such as `billing@orders`, if several have the id. Looked
                for unless said.
        """
        name, key, seen = unfinished(await self._found(id, queue))
        store = await self._store()
        log = await store.log(name, key)
        once = await store.once_all(name, key)
        summary = JobSummary.of(name, key, seen, self._redaction)
        if seen.state is State.RUNNING:
            summary = replace(summary, started=await run_started(store, seen.worker, key))
        detail = JobDetail.whole(summary, seen, log.lines, once, self._redaction)
        if not detail.lacks_first_argument:
            return detail
        return replace(detail, received=await received_by(store, name, key, seen, self._redaction))

    async def watch(self, id: str) -> AsyncGenerator[JobUpdate, None]:
        """As `app.job(id).watch()`, redacted.

        Args:
            id: The id of a job.
        """
        masks = await self._masks(id)
        async with aclosing(self._app.job(id).watch()) as updates:
            async for update in updates:
                progress = masked_progress(update.progress, masks)
                lines = tuple(map(masks.text, update.lines))
                yield msgspec.structs.replace(update, progress=progress, lines=lines)

    async def _masks(self, id: str, queue: str | None = None) -> Masks:
        """What is hidden of a job; if it is not kept, everything."""
        if not self._redaction.active:
            return NOTHING_HIDDEN
        try:
            _, _, seen = unfinished(await self._found(id, queue))
        except JobNotFound:
            return self._redaction.masks(None)
        return self._redaction.masks(opened(seen.envelope), decode_constraints(seen.constraints))

    async def where(self, id: str) -> list[str]:
        """The queue that a job is in, or the queues of all groups that have an event to handle;
        `JobNotFound` if there is none.

        Args:
            id: The id of a job or an event.
        """
        return [name for name, _, _ in await self._found(id)]

    async def log(self, id: str, queue: str | None = None) -> list[str]:
        """The last 1,000 lines that a job wrote with `ctx.log`, kept for a day after the last, also
        if nothing else of the job is kept: then every queue is asked unless one is named.
        `JobNotFound` if nothing at all is known of it.

        Args:
            id: The id of a job.
            queue: The queue, or the group such as `billing@orders`, if several have the id. Looked
                for unless said.
        """
        store, job_id = await self._store(), id_codec.to_id(id)
        names = await self._sources(queue)
        known = await store.locate(names, job_id)
        for name in known or names:
            if lines := (await store.log(name, job_id)).lines:
                return [*map((await self._masks(id, queue)).text, lines)]
        if not known:
            await self._found(id, queue)
        return []

    async def why(self, id: str, queue: str | None = None) -> str:
        """A sentence that says why a job is not running, or how it ended; of an event, one for each
        group that has it, or for the group that `queue` names. `JobNotFound` if there is no such
        job or event.

        Args:
            id: The id of a job or an event.
            queue: The queue, or the group such as `billing@orders`, if several have the id. Looked
                for unless said.
        """
        store, lease = await self._store(), self._app.lease
        try:
            found = await self._found(id, queue)
        except JobNotFound:
            logs = await store.logs() if queue is None else []
            if (sentence := await why_logged(store, logs, id_codec.to_id(id))) is None:
                raise
            return sentence
        if any(is_log(name) or group_source(name) for name, _, _ in found):
            after = (self._app.unknown_task_after, "it is dead")
            event_why = partial(EventWhy, redaction=self._redaction, unknown=after, lease=lease)
            return " ".join([await event_why(store, *each).answer() for each in found])
        name, key, seen = unfinished(found)
        # The fallback gets jobs of tasks that its app does not have, and nobody here can read which
        # task one in a newer format is of.
        task = id_and_task(seen.envelope)[1].decode("utf-8", "replace")
        has_none = is_newer(seen.envelope) or task in self._app.tasks
        fallback = None if has_none else self._app.last_resort
        unknown = unknown_rule(fallback, self._app.unknown_task_after)
        why = Why(store, name, key, seen, self._redaction, unknown=unknown, lease=lease)
        return await why.answer()

    @recorded
    async def cancel(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        *,
        state: State | str | None = None,
        **conditions: Unpack[JobConditions],
    ) -> CancelReport:
        """Cancel jobs: those that have not begun never run, running ones are asked to end. Chosen
        by id, or else all that match, as in `jobs`, events of groups too: then a queue or a
        condition must be given. An event is cancelled in all groups that have taken it, or before
        it is due; one that is still in its log stays there. `JobNotFound` for a single id without a
        job.

        Args:
            ids: The ids of jobs, or one of them.
            queue: A queue, or a group such as `billing@orders`. All unless said.
            state: A state; all unfinished ones unless said.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            flow: The id of a flow's last job, for all jobs of that flow.
        """
        wanted = JobFilter(queue=queue, state=state, **conditions)
        if ids is not None:
            if wanted.is_narrow:
                raise ConfigError(f"give ids, or {_CONDITIONS} and until=, not both")
            return await self._cancel_named([ids] if isinstance(ids, str) else ids, queue)
        if not wanted:
            raise ConfigError(f"say which jobs: ids, queue=, {_CONDITIONS} or until=")
        store, states = await self._store(), states_meant(state, final=False)
        wanted = await self._with_group(wanted)
        matcher = await JobMatcher.of(store, wanted, self._redaction, self._app)
        request = CancelRequest(store)
        await request.matching(await self._sources(wanted.queue), states, matcher)
        return request.report()

    @recorded
    async def forget(self, ids: str | Iterable[str], queue: str | None = None) -> int:
        """Delete what is kept of jobs that are done or cancelled, with their results and logs, in
        the queue that knows them or in `queue`; returns of how many there was something. Jobs that
        have not ended, and dead ones, are left alone: see `cancel` and `purge`.

        Args:
            ids: The ids of jobs, or one of them.
            queue: The queue, or the group such as `billing@orders`, if several have the id. Looked
                for unless said.
        """
        named = [ids] if isinstance(ids, str) else ids
        job_ids = list(dict.fromkeys(id_codec.to_id(id) for id in named))
        store, forgotten = await self._store(), set[JobId]()
        for name in await self._sources_of(job_ids, queue):
            gone = await store.forget(name, job_ids)
            forgotten |= {id for id, was in zip(job_ids, gone, strict=True) if was}
        return len(forgotten)

    async def _cancel_named(self, named: Iterable[str], queue: str | None) -> CancelReport:
        job_ids = list(dict.fromkeys(id_codec.to_id(id) for id in named))
        report = await self._cancel_ids(job_ids, queue)
        if len(job_ids) == 1 and report.unknown:
            (id,) = report.unknown
            found = await self._found(id, queue)
            if not all(group_source(name) for name, *_ in found):
                # It was sent while we looked for it.
                return await self._cancel_ids(job_ids, queue)
            raise ConfigError(
                f"event {id} is still in its topic's log, which all groups share: "
                "pause the group, or let its handler leave the event alone"
            )
        return report

    async def _cancel_ids(self, job_ids: Sequence[JobId], queue: str | None) -> CancelReport:
        store = await self._store()
        request = CancelRequest(store)
        await request.named(await self._sources_of(job_ids, queue), job_ids)
        if queue is None:
            await request.scheduled(await store.logs(), job_ids)
        return request.report(job_ids)

    async def _found(self, id: str, queue: str | None = None) -> list[Found]:
        """Where the job is: in one queue, unless it has ended in several; in groups of a topic; or
        in a topic's log, if it is not due yet."""
        job_id = id_codec.to_id(id)
        found = await self._looked(job_id, await self._queue_names(queue))
        if queue is None and not found:
            found = await self._looked(job_id, await self._group_queues())
        if queue is None and not found:
            waiting = await self._looked(job_id, await (await self._store()).logs())
            found = [each for each in waiting if each[2].state is State.SCHEDULED]
        if not found:
            raise JobNotFound(id)
        return found

    async def _looked(self, job_id: JobId, queues: Sequence[str]) -> list[Found]:
        store = await self._store()
        found: list[Found] = []
        for queue in await store.locate(queues, job_id):
            (seen,) = await store.get(queue, [job_id], bodies=True)
            if seen is None:
                continue
            found.append((queue, job_id, seen))
            if not seen.state.final and not group_source(queue):
                break
        return found
