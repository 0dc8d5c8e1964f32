"""How a job has ended, as a result or an error."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Protocol

from headrace.core import codec
from headrace.core.job import ids
from headrace.core.job.envelope import decode_envelope
from headrace.core.job.history import decode_history
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import Verdict, decode_verdict
from headrace.core.misfit import field_problem
from headrace.core.payload.codecs import Form
from headrace.core.payload.packing import unpack
from headrace.errors import (
    HeadraceError,
    JobCancelled,
    JobFailed,
    ResultExpired,
    ResultLost,
    ResultUnreadable,
)
from headrace.store.contract import JobSnapshot, Store

_ON_ITS_WAY = 0.2


class ResultForms(Protocol):
    """How the tasks of an app write their results. `Headrace` is one."""

    @property
    def max_payload(self) -> int: ...

    def result_form(self, content: str) -> Form | None:
        """The codec of results with this content type, if a task of the app has it."""
        ...


def unpacked_result(app: ResultForms, id: str, snapshot: JobSnapshot, returns: Any) -> Any:
    """The result of a job that is done, as the type that its task returns; `JobCancelled`,
    `ResultExpired`, `ResultLost` or `ResultUnreadable` if there is none."""
    verdict = decode_verdict(snapshot.verdict) if snapshot.verdict else None
    if snapshot.state is State.CANCELLED:
        raise JobCancelled(id)
    if verdict is None:
        raise ResultExpired(id)
    if verdict.lost:
        raise ResultLost(id, verdict.error_text, verdict.lost)
    if verdict.content or verdict.packing is not None:
        return _of_form(app, id, verdict, returns)
    try:
        return codec.decoder(returns)(verdict.value)
    except codec.DECODE_ERRORS as error:
        raise _unreadable(id, error, returns) from None


def _of_form(app: ResultForms, id: str, verdict: Verdict, returns: Any) -> Any:
    form = app.result_form(verdict.content)
    if form is None:
        problem = f"it comes as {verdict.content!r}: declare a task of this app with its codec"
        raise ResultUnreadable(id, problem)
    try:
        data = unpack(verdict.value, verdict.packing, app.max_payload)
        return form.decoder(returns)(data)
    except Exception as error:
        raise _unreadable(id, error, returns) from None


def _unreadable(id: str, error: Exception, returns: Any) -> ResultUnreadable:
    says = f"; its task says that it returns {inspect.formatannotation(returns)}"
    return ResultUnreadable(id, f"{field_problem(error)}{says}")


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
