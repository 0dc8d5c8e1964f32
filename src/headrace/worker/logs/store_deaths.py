"""Logs jobs that die inside the store, without a run of this worker or any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from headrace.core.display import plural
from headrace.core.job import ids
from headrace.core.job.state import Reason
from headrace.core.queue_names import group_source
from headrace.store.deaths import Deaths
from headrace.store.flow_values import Cause, decode_cause
from headrace.store.oddities import readable
from headrace.worker.logs.floods import Floods

log = logging.getLogger("headrace.worker")


class StoreDeathLog:
    """One for a worker. Those that die together, of one task and for one reason, are one line; what
    follows of them within a second is one more."""

    def __init__(self) -> None:
        self.count = 0
        self._new: list[Deaths] = []
        self._floods: Floods[Deaths] = Floods(_sum_up, in_full=1)

    def died(self, deaths: Sequence[Deaths]) -> None:
        """The store has made these jobs dead."""
        self.count += sum(some.count for some in deaths)
        self._new += deaths
        # In a moment: the line of the job that they died with comes first.
        asyncio.get_running_loop().call_soon(self._report)

    def close(self) -> None:
        """Log what was only counted so far."""
        self._report()
        self._floods.close()

    def _report(self) -> None:
        new, self._new = self._new, []
        for some in new:
            kind = (some.queue, some.reason, some.task, some.why)
            if self._floods.admit(kind, some, some.count):
                _report(some)


def _report(some: Deaths) -> None:
    id, why = ids.to_text(some.job_id), _why(some)
    if some.count == 1:
        _emit(f"{_kind(some)} {id} is dead ({some.reason}): {why}", some, some.count, why)
    else:
        many = plural(some.count, _noun(some)) + f" are dead ({some.reason})"
        _emit(f"{_kind(some)}: {many}, the first is {id}: {why}", some, some.count, why)


def _sum_up(count: int, latest: Deaths) -> None:
    why = _why(latest)
    dead = f"{count:,} more {'is' if count == 1 else 'are'} dead ({latest.reason})"
    named = f"one of the latest is {ids.to_text(latest.job_id)}: {why}"
    _emit(f"{_kind(latest)}: {dead} in the last second, {named}", latest, count, why)


def _emit(text: str, some: Deaths, count: int, why: str) -> None:
    fields: dict[str, object] = {
        "job": ids.to_text(some.job_id),
        "queue": some.queue,
        "reason": some.reason,
        "error": why,
    }
    if some.task:
        fields["task"] = some.task
    if count > 1:
        fields["count"] = count
    if cause := _cause_of(some):
        fields.update(failed_job=ids.to_text(cause.job_id), failed_queue=cause.queue)
    log.error("%s", text, extra=fields)


def _why(some: Deaths) -> str:
    if some.reason == Reason.PARENT_FAILED:
        cause = _cause_of(some)
        named = f"job {ids.to_text(cause.job_id)} of queue {cause.queue!r}" if cause else "a job"
        return f"{named} failed, and {'it' if some.count == 1 else 'they'} waited for that"
    if some.reason == Reason.KEY_FAILED:
        return f"an event of the same key, {readable(some.why)!r}, failed before"
    return " ".join(readable(some.why).split())


def _cause_of(some: Deaths) -> Cause | None:
    return decode_cause(some.why) if some.reason == Reason.PARENT_FAILED else None


def _kind(some: Deaths) -> str:
    return some.task or _noun(some)


def _noun(some: Deaths) -> str:
    return "event" if group_source(some.queue) else "job"
