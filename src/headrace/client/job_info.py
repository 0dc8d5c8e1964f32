"""What is known of one job at one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.client.attempts import AttemptInfo, RunTimes, attempts_of
from headrace.core.bounds import MAX_PAYLOAD
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope, decode_envelope, is_newer
from headrace.core.job.history import deaths, decode_history
from headrace.core.job.progress import Progress, decode_progress
from headrace.core.job.state import State
from headrace.core.payload.codecs import readable
from headrace.core.payload.packing import unpacked
from headrace.errors import HeadraceError
from headrace.store.contract import JobSnapshot


class JobInfo(msgspec.Struct, frozen=True):
    """The state of a job now. Of a job that is done or cancelled, all of it is known while the
    history has it; afterwards, only its state and result."""

    id: str
    """The id of the job."""
    state: State
    """Where it is now."""
    queue: str
    """The queue that it is in, or was."""
    task: str | None
    """The task's name; None if it is not known any more."""
    sent: datetime | None
    """When it was sent."""
    due: datetime | None
    """When it may start, if it is scheduled."""
    worker: str | None
    """Who runs it, or ran it last."""
    reason: str | None
    """Why it is dead; one of `Reason`."""
    attempt: int
    """Number of the present run, or of the next, from 1."""
    attempts: tuple[AttemptInfo, ...]
    """Every run that has ended, from before a replay too. Of a job that is done, the last one
    succeeded."""
    progress: Progress | None = None
    """The last progress that it reported."""
    waits_for: str | None = None
    """Of a blocked job: `lane` (its key), `flow` (other jobs), `task` and a name (which is paused),
    or the name of a rate limit."""
    result: Any = None
    """What it returned; None if it is not done, or its result is not kept."""
    result_kept: bool = False
    """Whether `result` is what it returned."""
    ended: datetime | None = None
    """When it was done or cancelled, or died."""
    waited: float | None = None
    """Seconds for which it was ready before its last run; once it is done."""
    took: float | None = None
    """Seconds that its last run took; once it has ended."""
    started: datetime | None = None
    """When its run began, once its worker has reported it; of a job that has ended, the last."""
    cause: str | None = None
    """The id of the job that failed first, if this one is dead because it waited for it."""
    arguments: Any = None
    """As plain values; None if they are not kept, or cannot be read."""
    death_count: int = 0
    """How often it died, before replays too."""
    newer_format: bool = False
    """Whether a newer version of Headrace sent it, in a format that this one cannot read: a worker
    of that version runs it."""
    lost_result: str | None = None
    """The `repr` of what it returned, up to 1,000 characters, if that cannot travel."""


def job_info(job_id: str, queue: str, snapshot: JobSnapshot) -> JobInfo:
    """What a snapshot says of a job."""
    ended, count = attempts_of(snapshot)
    attempts = tuple(map(AttemptInfo.of, ended))
    times = RunTimes.of(snapshot)
    blocked = snapshot.state is State.BLOCKED
    envelope = _opened(snapshot.envelope)
    return JobInfo(
        id=job_id,
        state=snapshot.state,
        queue=queue,
        task=_task(snapshot, envelope),
        sent=_sent(job_id, envelope),
        due=to_datetime(snapshot.due_ms) if snapshot.due_ms else None,
        worker=snapshot.worker or times.worker,
        reason=None if blocked else snapshot.reason or None,
        attempt=count + (0 if snapshot.state.final else 1),
        attempts=attempts,
        progress=decode_progress(snapshot.progress),
        waits_for=snapshot.reason or None if blocked else None,
        ended=times.ended,
        waited=times.waited,
        took=times.took,
        started=times.started,
        cause=ids.to_text(snapshot.cause.job_id) if snapshot.cause else None,
        arguments=None if envelope is None else _arguments(envelope),
        death_count=deaths(decode_history(snapshot.history)) + (snapshot.state is State.DEAD),
        newer_format=envelope is None and is_newer(snapshot.envelope),
    )


def _opened(data: bytes) -> Envelope | None:
    try:
        return decode_envelope(data)
    except HeadraceError:
        return None


def _task(snapshot: JobSnapshot, envelope: Envelope | None) -> str | None:
    if snapshot.ended:
        return snapshot.ended.task
    return None if envelope is None else envelope.task


def _sent(job_id: str, envelope: Envelope | None) -> datetime | None:
    made = ids.created_ms(ids.to_id(job_id))
    if made is None and envelope is not None:
        made = envelope.overrides.sent_ms
    return to_datetime(made) if made else None


def _arguments(envelope: Envelope) -> Any:
    try:
        payload = unpacked(envelope, MAX_PAYLOAD).payload
    except HeadraceError:
        return None
    found = readable(envelope.overrides.content, payload)
    return None if found is payload else found
