"""What happened to a dead job, as an error."""

from __future__ import annotations

import asyncio

from headrace.core.job import ids
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import Verdict, decode_verdict
from headrace.errors import HeadraceError, JobFailed
from headrace.store.contract import JobSnapshot, Store

_ON_ITS_WAY = 0.2


async def job_failure(
    store: Store, queue: str, id: str, ended: JobSnapshot, *, patient: bool = True
) -> JobFailed | None:
    """The failure of a job that was seen to be dead. None if it died with a job of its flow that is
    not dead any more: then it goes on too."""
    (seen,) = await store.get(queue, [ids.to_id(id)], bodies=True)
    if seen is None or seen.state is not State.DEAD:
        if seen is not None and _verdict(ended).reason == Reason.PARENT_FAILED:
            return None
        seen = ended
    if seen.cause is None:
        return _failure(id, seen, _verdict(ended) if ended.verdict else None, None)
    (first,) = await store.get(seen.cause.queue, [seen.cause.job_id], bodies=True)
    if first is not None and first.state is not State.DEAD:
        return None
    if first is None and patient:
        # It may just be done, and nothing be kept of it: that is on its way.
        await asyncio.sleep(_ON_ITS_WAY)
        return await job_failure(store, queue, id, ended, patient=False)
    cause = _first_failure(ids.to_text(seen.cause.job_id), first)
    return _failure(id, seen, _verdict(ended) if ended.verdict else None, cause)


def _verdict(ended: JobSnapshot) -> Verdict:
    return decode_verdict(ended.verdict) if ended.verdict else Verdict(ended.state)


def _first_failure(id: str, seen: JobSnapshot | None) -> JobFailed:
    if seen is None:
        return JobFailed(id, "unknown", "", "it is not kept", "")
    return _failure(id, seen, None, None)


def _failure(
    id: str, seen: JobSnapshot, verdict: Verdict | None, cause: JobFailed | None
) -> JobFailed:
    task = task_name(seen.envelope)
    if verdict is not None:
        error = (verdict.error_type, verdict.error_text, verdict.traceback)
        return JobFailed(id, verdict.reason, *error, task, cause)
    last = decode_history(seen.history).attempts[-1:]
    errors = [(a.error_type, a.error_text, a.traceback) for a in last]
    return JobFailed(id, seen.reason, *(errors or [("", "it was given up", "")])[0], task, cause)


def task_name(envelope: bytes) -> str | None:
    """The task in an envelope; None if it cannot be read."""
    try:
        return decode_envelope(envelope).task
    except HeadraceError:
        return None
