"""Questions and actions about dead jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Unpack

from headrace.admin.context import AdminContext
from headrace.admin.dead.dead_groups import DeadGroups, grouped
from headrace.admin.dead.dead_info import (
    PAGE,
    DeadInfo,
    DeadPage,
    matching,
)
from headrace.admin.dead.dead_scan import DeadScan, Found
from headrace.admin.dead.edited_arguments import Edit
from headrace.admin.dead.edited_replay import EditedReplay
from headrace.admin.dead.purging import purging
from headrace.admin.filters import DeadConditions, JobFilter
from headrace.admin.jobs.cause import JobCause, causes_of
from headrace.admin.jobs.received import received_by
from headrace.admin.matcher import JobMatcher
from headrace.admin.recorded import recorded
from headrace.client.send.flow_replay import FlowReplay
from headrace.core import bounds as limits
from headrace.core.job import ids as id_codec
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.queue_names import group_source
from headrace.errors import ConfigError, JobNotFound
from headrace.store.contract import DeadJob, JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

# Each comes with its envelope, which may have megabytes.
_READ_AHEAD = 20
_CONDITIONS = "reason=, task=, error=, error_type=, place=, search=, since="

Verb = Callable[[str, Sequence[JobId]], Awaitable[list[bool]]]


class DeadAdmin(AdminContext):
    """Finds, shows, replays and purges dead jobs."""

    async def dead(
        self,
        queue: str | None = None,
        *,
        limit: int = 100,
        **conditions: Unpack[DeadConditions],
    ) -> list[DeadInfo]:
        """Dead jobs of a queue, or of all queues and groups, the latest first. Conditions:
        `reason`, `task`, a text in the last `error`, its whole `error_type`, the `place` in the
        code that raised it (as `dead_groups` has them), a text to `search` in id, arguments and
        errors, and `since` and `until`, when they died. `billing@orders` is a group: its dead
        events.

        Args:
            queue: A queue, or a group such as `billing@orders`. All unless said.
            limit: How many at most.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            reason: Jobs that are dead for this reason, such as "retries_exhausted".
            error: A text in the type or the text of the last error; case does not matter.
            error_type: The type of the last error, in full.
            place: Where the code raised it, as `DeadGroup.place` says it.
        """
        limits.check_count("limit", limit)
        found: list[DeadInfo] = []
        async with aclosing(self.each_dead(queue, **conditions)) as every:
            async for job in every:
                found.append(job)
                if len(found) == limit:
                    break
        return found

    async def each_dead(
        self, queue: str | None = None, **conditions: Unpack[DeadConditions]
    ) -> AsyncGenerator[DeadInfo, None]:
        """What `dead` lists, one at a time and without a limit.

        Args:
            queue: A queue, or a group such as `billing@orders`. All unless said.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            reason: Jobs that are dead for this reason, such as "retries_exhausted".
            error: A text in the type or the text of the last error; case does not matter.
            error_type: The type of the last error, in full.
            place: Where the code raised it, as `DeadGroup.place` says it.
        """
        reading, _ = await self._scan(queue, None, conditions)
        more = True
        while more:
            found, following = await reading.page(_READ_AHEAD)
            more = bool(following)
            for job in await self._shown(found):
                yield job

    async def latest_dead(self, queues: Sequence[str], *, limit: int = 10) -> list[DeadInfo]:
        """The latest dead jobs of these queues together, or of shards of groups, as `group_counts`
        names them; one call to the store for each.

        Args:
            queues: Their names.
            limit: How many at most.
        """
        limits.check_count("limit", limit)
        store = await self._store()
        found = [
            DeadInfo.of(name, job, self._redaction)
            for name in queues
            for job in (await store.dead(name, limit=limit)).jobs
        ]
        return sorted(found, key=lambda info: info.died, reverse=True)[:limit]

    async def dead_page(
        self,
        queue: str | None = None,
        *,
        cursor: str = "",
        limit: int = 50,
        scan: int = 1000,
        **conditions: Unpack[DeadConditions],
    ) -> DeadPage:
        """As `dead`, `limit` at a time, of all queues together, the latest first. A short page may
        not be the last: there is more as long as it has a cursor, to be given for the next one.
        Examines at most `scan` dead jobs, in at most 50 reads of up to 100 jobs.

        Args:
            queue: A queue, or a group such as `billing@orders`. All unless said.
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
            reason: Jobs that are dead for this reason, such as "retries_exhausted".
            error: A text in the type or the text of the last error; case does not matter.
            error_type: The type of the last error, in full.
            place: Where the code raised it, as `DeadGroup.place` says it.
        """
        limits.check_count("limit", limit)
        limits.check_count("scan", scan)
        reading, total = await self._scan(queue, scan, conditions)
        found, following = await reading.page(limit, cursor)
        return DeadPage(await self._shown(found), following, reading.looked, total)

    async def dead_groups(
        self, queue: str | None = None, *, scan: int = 2000, **conditions: Unpack[DeadConditions]
    ) -> DeadGroups:
        """Dead jobs that failed alike, counted: by task, reason, type of the last error, and the
        place in the code that raised it. Of the latest `scan` that match, the largest first.

        Args:
            queue: A queue, or a group such as `billing@orders`. All unless said.
            scan: How many are examined at most.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            reason: Jobs that are dead for this reason, such as "retries_exhausted".
            error: A text in the type or the text of the last error; case does not matter.
            error_type: The type of the last error, in full.
            place: Where the code raised it, as `DeadGroup.place` says it.
        """
        limits.check_count("scan", scan)
        reading, total = await self._scan(queue, scan, conditions)
        found, following = await reading.page(scan)
        groups = grouped(DeadInfo.of(name, job, self._redaction) for name, job in found)
        return DeadGroups(groups, reading.looked, total, not following)

    async def _shown(self, found: Sequence[Found]) -> list[DeadInfo]:
        """Dead jobs, and which others those died with that did."""
        causes = await causes_of(await self._store(), found)
        return [
            DeadInfo.of(name, job, self._redaction, cause=causes.get((name, job.job_id)))
            for name, job in found
        ]

    async def _scan(
        self, queue: str | None, scan: int | None, conditions: DeadConditions
    ) -> tuple[DeadScan, int]:
        """A scan of the dead jobs of a queue or of all, and how many there are."""
        wanted = await self._with_group(JobFilter(queue=queue, **conditions))
        store, names = await self._store(), await self._sources(wanted.queue)
        matcher = await JobMatcher.of(store, wanted, self._redaction, self._app)
        states = await store.survey(names) if names else []
        latest = {
            name: state.last_died_ms or 0
            for name, state in zip(names, states, strict=True)
            if state.counts.dead
        }
        total = sum(state.counts.dead for state in states)
        return DeadScan(store, latest, matcher, scan), total

    async def dead_job(self, id: str, queue: str | None = None) -> DeadInfo:
        """One dead job or event, whatever its queue or group; `JobNotFound` if it is not dead (any
        more).

        Args:
            id: The id of a job or an event.
            queue: The queue, or the group such as `billing@orders`, if several have the id. Looked
                for unless said.
        """
        store, job_id = await self._store(), id_codec.to_id(id)
        for name in await store.locate(await self._sources(queue), job_id):
            (snapshot,) = await store.get(name, [job_id], bodies=True)
            if snapshot is not None and snapshot.state is State.DEAD:
                received = await received_by(store, name, job_id, snapshot, self._redaction)
                dead, cause = _seen(job_id, snapshot), JobCause.of(snapshot)
                return DeadInfo.of(name, dead, self._redaction, received, cause)
        raise JobNotFound(id)

    @recorded
    async def replay(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        *,
        edit: Edit | None = None,
        **conditions: Unpack[DeadConditions],
    ) -> int:
        """Send dead jobs again with all their tries; returns their number. Chosen by id, or else
        all that match, as in `dead`: then a queue or a condition must be given. A job that is not
        dead (any more) is left alone, so asking twice replays once. Those that match go in the
        order in which they died, and so do events of a group. Events go only in groups in which
        they are dead; an event named without a group, in all of those. Jobs of a flow that died
        with a replayed one wait again, with the results that they have. For one of those, the job
        that failed first is replayed; if that one was purged, they can never run: where none of the
        jobs named by id can, that is a `ConfigError`.

        `edit` changes their arguments: new values by name, or a function from all arguments (plain
        values by name) to all arguments. If one of the jobs would not fit its task then, that is an
        `ArgumentError` or a `ConfigError`, and none is sent. So it is if what the `unique` name,
        the `rate_key` or the `batch_key` of one was made of would change.

        Args:
            ids: The ids of jobs, or one of them.
            queue: A queue, or a group such as `billing@orders`. All unless said.
            edit: Changes their arguments: new values by name, or a function from all arguments to
                new ones.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            reason: Jobs that are dead for this reason, such as "retries_exhausted".
            error: A text in the type or the text of the last error; case does not matter.
            error_type: The type of the last error, in full.
            place: Where the code raised it, as `DeadGroup.place` says it.
        """
        store = await self._store()
        named = ids if ids is None or isinstance(ids, str) else list(ids)
        if edit is None:
            replay = FlowReplay(store, self._actor)
            done = await self._apply(replay.send, named, queue, conditions)
            if named is not None and not done:
                replay.refuse_stuck()
            return done
        edited = EditedReplay(
            self._app, store, edit, self._redaction_of_records, self._edited, by=self._actor
        )
        await self._apply(edited.check, named, queue, conditions)
        return await self._apply(edited.send, named, queue, conditions)

    @recorded
    async def purge(
        self,
        ids: str | Iterable[str] | None = None,
        queue: str | None = None,
        **conditions: Unpack[DeadConditions],
    ) -> int:
        """Delete dead jobs, chosen as in `replay`; returns their number.

        Args:
            ids: The ids of jobs, or one of them.
            queue: A queue, or a group such as `billing@orders`. All unless said.
            task: Jobs of this task.
            tag: One of the tags that the job was sent with.
            search: A text in the id, the arguments or an error; case does not matter. `order=o-17`
                also finds jobs whose argument `order` is that value.
            arguments: Whether `search` looks into arguments; True by default.
            since: Sent, or died, at this moment or later; with a `timedelta`, at most so long ago.
            until: Sent, or died, before this moment; with a `timedelta`, longer ago than that.
            reason: Jobs that are dead for this reason, such as "retries_exhausted".
            error: A text in the type or the text of the last error; case does not matter.
            error_type: The type of the last error, in full.
            place: Where the code raised it, as `DeadGroup.place` says it.
        """
        return await self._apply(purging(self._app, await self._store()), ids, queue, conditions)

    async def _apply(
        self,
        verb: Verb,
        named: str | Iterable[str] | None,
        queue: str | None,
        conditions: DeadConditions,
    ) -> int:
        store = await self._store()
        wanted = JobFilter(queue=queue, **conditions)
        if named is not None:
            if wanted.is_narrow:
                raise ConfigError(f"give ids, or {_CONDITIONS} and until=, not both")
            return await self._apply_to(verb, [named] if isinstance(named, str) else named, queue)
        if not wanted:
            raise ConfigError(f"say which dead jobs: ids, queue=, {_CONDITIONS} or until=")
        wanted = await self._with_group(wanted)
        matcher = await JobMatcher.of(store, wanted, self._redaction, self._app)
        done = 0
        for name in await self._with_dead(wanted.queue):
            pages = matching(store, name, matcher)
            found = [job.job_id async for jobs in pages for job in jobs]
            # In the order in which they died: a group may be ordered, and so are jobs of a key.
            done += len(await _taken(verb, name, found[::-1]))
        return done

    async def _apply_to(self, verb: Verb, named: Iterable[str], queue: str | None) -> int:
        job_ids = list(dict.fromkeys(id_codec.to_id(id) for id in named))
        store, done = await self._store(), set[JobId]()
        for name in await self._sources_of(job_ids, queue):
            if group_source(name):
                done |= await _taken(verb, name, await _oldest_first(store, name, job_ids))
            else:
                # A job is dead in one queue; an event may be in several groups.
                done |= await _taken(
                    verb, name, [job_id for job_id in job_ids if job_id not in done]
                )
        return len(done)

    async def _with_dead(self, queue: str | None) -> list[str]:
        """Those of `_sources` that hold any dead job."""
        names = await self._sources(queue)
        states = await (await self._store()).survey(names) if names else []
        return [name for name, now in zip(names, states, strict=True) if now.counts.dead]


async def _taken(verb: Verb, queue: str, job_ids: Sequence[JobId]) -> set[JobId]:
    """Apply the verb to the jobs that are dead in the queue; returns their ids."""
    taken: set[JobId] = set()
    for start in range(0, len(job_ids), PAGE):
        batch = job_ids[start : start + PAGE]
        taken.update(key for key, done in zip(batch, await verb(queue, batch), strict=True) if done)
    return taken


async def _oldest_first(store: Store, queue: str, job_ids: Sequence[JobId]) -> Sequence[JobId]:
    """Those that are dead, in the order in which they died: a group may be ordered."""
    if len(job_ids) < 2:
        return job_ids
    wanted, found = set(job_ids), list[JobId]()
    async with aclosing(matching(store, queue, JobMatcher())) as pages:
        async for jobs in pages:
            found += [job.job_id for job in jobs if job.job_id in wanted]
            if len(found) == len(wanted):
                break
    return found[::-1]


def _seen(job_id: JobId, snapshot: JobSnapshot) -> DeadJob:
    """The dead job in a snapshot."""
    died_ms = snapshot.died_ms or 0
    return DeadJob(job_id, died_ms, snapshot.reason, snapshot.envelope, snapshot.history)
