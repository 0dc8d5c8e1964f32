"""Another time, priority or queue for jobs that have not begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from headrace.admin.bodies import opened
from headrace.admin.jobs.job_admin import JobAdmin, unfinished
from headrace.admin.recorded import recorded
from headrace.core.clock import Duration, epoch_ms, to_datetime, to_ms
from headrace.core.job import ids as id_codec
from headrace.core.job.constraints import Constraints, decode_constraints
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.queue_names import check_queue, group_source, is_log
from headrace.core.task.send_options import check_priority
from headrace.errors import ConfigError
from headrace.store.contract import JobSnapshot
from headrace.store.queue_values import Rescheduling

_TOGETHER = 500
_MOVABLE = (State.WAITING, State.SCHEDULED)


class RescheduleAdmin(JobAdmin):
    """Runs jobs now, and moves them to another time, priority or queue."""

    @recorded
    async def run_now(self, ids: str | Iterable[str]) -> int:
        """Let scheduled jobs run now; returns how many are due now, those that were waiting
        included. They still pass the limits and the order of their keys. As `reschedule` with no
        delay.

        Args:
            ids: The ids of jobs, or one of them.
        """
        return await self._reschedule(ids, Rescheduling(delay_ms=0))

    @recorded
    async def reschedule(
        self,
        ids: str | Iterable[str],
        *,
        at: datetime | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> int:
        """Move waiting and scheduled jobs to another time, priority or queue; returns how many were
        moved. Others are left alone; a single one is a `ConfigError` that says why, or
        `JobNotFound`. A job keeps its id, its arguments and its attempts. One with a unique name,
        a key or a bound of concurrency, in a flow, or that has done something once, cannot change
        its queue; a single job cannot go to a time at which it has expired. The bound of a queue
        does not hold back what a person moves there.

        Args:
            ids: The ids of jobs, or one of them.
            at: When they may start: an aware datetime.
            delay: How long from now: seconds or a timedelta.
            priority: From 0 to 100.
            queue: The queue they go to.
        """
        change = _change(at, delay, priority, queue)
        return await self._reschedule(ids, change)

    async def _reschedule(self, ids: str | Iterable[str], change: Rescheduling) -> int:
        named = [ids] if isinstance(ids, str) else list(ids)
        job_ids = list(dict.fromkeys(id_codec.to_id(id) for id in named))
        if not job_ids:
            raise ConfigError("say which jobs: give their ids")
        if len(job_ids) == 1 and (change.delay_ms or change.at_ms is not None):
            # Of many, their bodies would have to be read.
            await self._check_expiry(id_codec.to_text(job_ids[0]), change)
        store, moved = await self._store(), 0
        left = job_ids
        for name in await self._sources_of(job_ids):
            if change.queue == name or (change.queue and group_source(name)):
                continue
            for at in range(0, len(left), _TOGETHER):
                together = await self._allowed(name, left[at : at + _TOGETHER], change)
                done = await store.reschedule(name, together, change) if together else []
                gone = {key for key, was in zip(together, done, strict=True) if was}
                moved += len(gone)
                left = [key for key in left if key not in gone] if gone else left
        if not moved and len(job_ids) == 1:
            await self._refuse(id_codec.to_text(job_ids[0]), change)
        return moved

    async def _check_expiry(self, id: str, change: Rescheduling) -> None:
        """Refuse a time at which the job could only die."""
        _, _, seen = unfinished(await self._found(id))
        envelope = opened(seen.envelope)
        expires_ms = envelope.overrides.expires_ms if envelope else None
        if expires_ms is None or seen.state not in _MOVABLE:
            return
        at_ms = change.at_ms
        if at_ms is None:
            at_ms = await (await self._store()).time_ms() + (change.delay_ms or 0)
        if at_ms >= expires_ms:
            raise ConfigError(
                f"job {id} expires at {to_datetime(expires_ms):%Y-%m-%d %H:%M:%S} UTC, before it "
                "may start: give it an earlier time"
            )

    async def _allowed(
        self, queue: str, job_ids: Sequence[JobId], change: Rescheduling
    ) -> Sequence[JobId]:
        """Those that may change their queue, if that is wanted; the store cannot see which are in a
        flow."""
        if not change.queue:
            return job_ids
        seen = await (await self._store()).get(queue, job_ids, bodies=True)
        return [
            key
            for key, each in zip(job_ids, seen, strict=True)
            if each is not None and not _in_flow(each)
        ]

    async def _refuse(self, id: str, change: Rescheduling) -> None:
        """Say why a single job was not moved."""
        name, _, seen = unfinished(await self._found(id))
        if is_log(name):
            raise ConfigError(f"event {id} is in its topic's log, which all groups share")
        if seen.state not in _MOVABLE:
            raise ConfigError(
                f"job {id} is {seen.state}: only waiting and scheduled jobs can be moved"
            )
        if change.queue == name:
            raise ConfigError(f"job {id} is in queue {name!r} already")
        what = "has done something once"
        if group_source(name):
            what = "is an event of a group"
        elif _in_flow(seen):
            what = "is in a flow"
        elif decode_constraints(seen.constraints).unique:
            what = "has a unique name"
        elif _is_in_lane(decode_constraints(seen.constraints)):
            what = "has a key or a bound of concurrency, which holds in one queue"
        raise ConfigError(f"job {id} {what}: it cannot change its queue")


def _is_in_lane(constraints: Constraints) -> bool:
    return bool(constraints.lane or constraints.task_lane)


def _in_flow(seen: JobSnapshot) -> bool:
    envelope = opened(seen.envelope)
    return envelope is not None and bool(envelope.overrides.flow)


def _change(
    at: datetime | None, delay: Duration | None, priority: int | None, queue: str | None
) -> Rescheduling:
    if at is not None and delay is not None:
        raise ConfigError("give at= or delay=, not both")
    if at is None and delay is None and priority is None and queue is None:
        raise ConfigError("say where to: at=, delay=, priority= or queue=")
    return Rescheduling(
        delay_ms=None if delay is None else to_ms("delay", delay),
        at_ms=None if at is None else epoch_ms("at", at),
        priority=None if priority is None else check_priority("priority", priority),
        queue="" if queue is None else check_queue("queue", queue),
    )
