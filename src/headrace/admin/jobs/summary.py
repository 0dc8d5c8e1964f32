"""What is known of a job: a summary for lists, and all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from headrace.admin.bodies import MOST_LISTED, opened, sent_at, shown_value
from headrace.admin.jobs.cause import JobCause, error_without_a_run
from headrace.admin.jobs.gate_text import gate_text
from headrace.admin.redaction import (
    CLEAR,
    Redaction,
    masked_attempts,
    masked_gate,
    masked_lane,
    masked_limits,
    masked_progress,
    masked_tags,
)
from headrace.admin.topics.event_info import EventInfo, event_in
from headrace.client.attempts import AttemptInfo, ReplayInfo, RunTimes, attempts_of, replays_of
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.constraints import Constraints, Limit, decode_constraints
from headrace.core.job.envelope import Envelope, Malformed, is_newer
from headrace.core.job.history import Attempt
from headrace.core.job.ids import JobId
from headrace.core.job.progress import Progress, decode_progress
from headrace.core.job.state import State
from headrace.core.job.verdict import Verdict, decode_verdict
from headrace.core.masking import NOTHING_HIDDEN, Masks
from headrace.store.contract import JobSnapshot

_KEY = "key:"


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in a list. `task` is None if its envelope cannot be read."""

    id: str
    """The id of the job."""
    queue: str
    """The queue, or the queue of the group."""
    task: str | None
    """The task's name; None if its envelope cannot be read."""
    state: State
    """Where it is now."""
    priority: int
    """From 0 to 100."""
    key: str | None
    """The `key` it was sent with; of an event, its key."""
    tags: tuple[str, ...]
    """The `tags` it was sent with."""
    sent: datetime | None
    """When it was sent."""
    due: datetime | None
    """When it may start, if it is scheduled."""
    worker: str | None
    """Who runs it, or ran it last."""
    attempt: int
    """The attempt that runs or comes next; of a job that has ended, the last."""
    waits_for: str | None
    """Of a blocked job: `lane` (its key), `flow` (other jobs), `task` and a name (which is paused),
    or the name of a rate limit."""
    reason: str | None
    """Why it is dead."""
    error: str | None
    """Type and text of the error that its last attempt ended with; of a job that died with another,
    which that is."""
    progress: Progress | None
    """The last that it reported."""
    ended: datetime | None
    """When it was done or cancelled, as far as the history has it; of a dead job, when it died."""
    waited: float | None
    """Seconds for which it was ready before its last run, if the history has it."""
    took: float | None
    """Seconds that its last run took, if it is dead or the history has it."""
    started: datetime | None
    """When its last run began, if it is dead or the history has it; in `admin.job`, also the run
    that goes on now, once its worker has reported it."""
    arguments: Any
    """As plain values, for showing; None if they are not kept, or cannot be read. A
    `TooLargeToShow` if they take more than 2 MiB, in a list 64 KiB."""
    lacks_first_argument: bool
    """Whether its first argument comes from the jobs before it, so that `arguments` lack it."""
    newer_format: bool
    """Whether a newer version of Headrace sent it, in a format that this one cannot read: a worker
    of that version runs it."""

    @property
    def waits_text(self) -> str:
        """`waits_for` in words, such as "others of key 'o-17'"; empty if it is not blocked."""
        return gate_text(self.waits_for, self.key, self.task) if self.waits_for else ""

    @classmethod
    def of(
        cls, queue: str, job_id: JobId, snapshot: JobSnapshot, redaction: Redaction = CLEAR
    ) -> JobSummary:
        envelope, constraints = opened(snapshot.envelope), decode_constraints(snapshot.constraints)
        task = (snapshot.ended and snapshot.ended.task) or (envelope and envelope.task) or None
        (attempts, ran), times = attempts_of(snapshot), RunTimes.of(snapshot)
        blocked = snapshot.state is State.BLOCKED
        last = attempts[-1] if attempts else None
        named = key_of(constraints) or (envelope and envelope.overrides.key) or None
        # Arguments may have megabytes: they are decoded only if there is a text to mask.
        gates = constraints.limits or constraints.gathering
        tagged = envelope is not None and bool(envelope.overrides.tags)
        says = named or attempts or snapshot.progress or gates or tagged
        masks = redaction.masks(envelope, constraints) if says else NOTHING_HIDDEN
        return cls(
            id=ids.to_text(job_id),
            queue=queue,
            task=task,
            state=snapshot.state,
            priority=constraints.priority,
            key=None if named is None else masks.name(named),
            tags=masked_tags(envelope, masks),
            sent=sent_at(job_id, envelope),
            due=to_datetime(snapshot.due_ms) if snapshot.due_ms else None,
            worker=snapshot.worker or times.worker,
            attempt=ran + (0 if snapshot.state.final else 1),
            waits_for=(masked_gate(snapshot.reason, masks, task) or None) if blocked else None,
            reason=None if blocked else snapshot.reason or None,
            error=_error(snapshot, last, masks) or None,
            progress=masked_progress(decode_progress(snapshot.progress), masks),
            ended=times.ended,
            waited=times.waited,
            took=times.took,
            started=times.started,
            arguments=redaction.arguments(envelope, MOST_LISTED),
            lacks_first_argument=bool(envelope and envelope.overrides.feed),
            newer_format=envelope is None and is_newer(snapshot.envelope),
        )


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs."""

    jobs: list[JobSummary]
    """The jobs on it."""
    cursor: str
    """Where the next page begins; empty after the last."""
    looked: int
    """How many jobs were examined to find these."""


@dataclass(frozen=True, slots=True)
class JobDetail(JobSummary):
    """All that is known of one job. Of one that is done or cancelled, that is all of it while the
    history has it, and little afterwards."""

    result: Any
    """What it returned, as plain values, while that is kept."""
    result_kept: bool
    """Whether `result` is what it returned."""
    attempts: tuple[AttemptInfo, ...]
    """Every run that has ended; of very many the last, behind one that says so."""
    received: tuple[Any, ...] | None
    """What it received from the jobs that it waited for, as plain values: the one that is its first
    argument, or all that are in it. None if it takes none, has none yet, or they are too large."""
    replays: tuple[ReplayInfo, ...]
    """When it was dead and sent again, by whom, and after how many attempts."""
    flow: str | None
    """The id of the last job of the flow it belongs to."""
    lane: str | None
    """Its lane: `key:` and its key, or `task:` and its task."""
    width: int | None
    """How many of that lane may run at a time."""
    task_width: int | None
    """How many of its task, if its key limits it too, or a rate."""
    unique: str | None
    """The name under which it is unique."""
    limits: tuple[Limit, ...]
    """The rates and bounds that it counts for."""
    headers: dict[str, str]
    """As sent."""
    expires: datetime | None
    """When it may no longer start."""
    log: tuple[str, ...]
    """What it wrote with `ctx.log`, as far as it is kept."""
    once: tuple[str, ...]
    """What it has done with `ctx.once`, by name."""
    event: EventInfo | None
    """What its envelope says, if it is an event in a group."""
    cause: JobCause | None
    """The job that failed first, if this one is dead because it waited for it."""
    lost_result: str | None
    """The `repr` of what it returned, if that cannot travel."""

    @property
    def death_count(self) -> int:
        """How often it died, before replays too."""
        return len(self.replays) + (self.state is State.DEAD)

    @classmethod
    def whole(
        cls,
        summary: JobSummary,
        snapshot: JobSnapshot,
        log: Sequence[str],
        once: Iterable[str],
        redaction: Redaction = CLEAR,
    ) -> JobDetail:
        """A summary with all the rest."""
        envelope, constraints = opened(snapshot.envelope), decode_constraints(snapshot.constraints)
        overrides = None if envelope is None else envelope.overrides
        result = _result(ids.to_id(summary.id), snapshot)
        masks = redaction.masks(envelope, constraints, result)
        lost = lost_result_of(snapshot)
        return cls(
            **_fields_of(summary),
            arguments=redaction.arguments(envelope),
            result=redaction.value(summary.task, result),
            result_kept=_has_result(snapshot),
            attempts=masked_attempts(list(map(AttemptInfo.of, attempts_of(snapshot)[0])), masks),
            received=None,
            replays=replays_of(snapshot.history, snapshot.ended),
            flow=_flow(envelope),
            lane=masked_lane(constraints.lane, masks, summary.task) or None,
            width=constraints.width if constraints.lane else None,
            task_width=constraints.task_width if constraints.task_lane else None,
            unique=masks.name(constraints.unique) or None,
            limits=masked_limits(constraints.limits, masks, summary.task),
            headers=masks.mapping(overrides.headers) if overrides else {},
            expires=(
                to_datetime(overrides.expires_ms) if overrides and overrides.expires_ms else None
            ),
            log=tuple(map(masks.text, log)),
            once=tuple(map(masks.text, sorted(once))),
            event=event_in(ids.to_id(summary.id), envelope, redaction),
            cause=JobCause.of(snapshot),
            lost_result=redaction.value(summary.task, masks.text(lost.lost)) if lost else None,
        )


def _fields_of(summary: JobSummary) -> dict[str, Any]:
    """All but the arguments, which lists cut short."""
    names = (field.name for field in fields(summary) if field.name != "arguments")
    return {name: getattr(summary, name) for name in names}


def _error(snapshot: JobSnapshot, last: Attempt | None, masks: Masks) -> str:
    if snapshot.state is State.DEAD and (
        text := error_without_a_run(snapshot.reason, JobCause.of(snapshot))
    ):
        return text
    if last is None:
        return ""
    (shown,) = masked_attempts([AttemptInfo.of(last)], masks)
    return shown.error


def key_of(constraints: Constraints) -> str | None:
    """The key among the constraints of a job, as it was given."""
    return constraints.lane.removeprefix(_KEY) if constraints.lane.startswith(_KEY) else None


def _flow(envelope: Envelope | None) -> str | None:
    flow = b"" if envelope is None else envelope.overrides.flow
    return ids.to_text(flow) if flow else None


def _has_result(snapshot: JobSnapshot) -> bool:
    try:
        verdict = decode_verdict(snapshot.verdict) if snapshot.verdict else None
    except Malformed:
        return False
    return verdict is not None and verdict.state is State.DONE and not verdict.lost


def lost_result_of(snapshot: JobSnapshot) -> Verdict | None:
    """The verdict on a job that is done, while it is kept, if what it returned cannot travel."""
    try:
        verdict = decode_verdict(snapshot.verdict) if snapshot.verdict else None
    except Malformed:
        return None
    return verdict if verdict is not None and verdict.lost else None


def _result(job_id: JobId, snapshot: JobSnapshot) -> Any:
    try:
        verdict = decode_verdict(snapshot.verdict) if snapshot.verdict else Verdict(State.DEAD)
    except Malformed:
        return None
    if not verdict.value:
        return None
    return shown_value(job_id, verdict.value, verdict.packing, verdict.content)
