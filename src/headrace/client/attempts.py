"""The runs of a job, for people: every attempt, and how long the job waited and ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.core.clock import to_datetime
from headrace.core.job.history import (
    Attempt,
    ShownAttempts,
    shown_attempts,
    shown_history,
    shown_lives,
)
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.workers import WORKERS, decode_record
from headrace.errors import Reject
from headrace.store.contract import JobSnapshot, Store
from headrace.store.values import EndedJob

_REJECT = f"{Reject.__module__}.{Reject.__qualname__}"


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """One run of a job that has ended."""

    number: int
    """From 1, plus one after each failure."""
    started: datetime
    """By the store's clock."""
    ended: datetime
    """By the store's clock."""
    worker: str
    """Who ran it."""
    error_type: str
    """The full name of the class of what was raised; empty after success."""
    error_text: str
    """Its text."""
    traceback: str
    """Where it was raised."""

    @property
    def error(self) -> str:
        """Type and text of the error; only the text if no task raised it; empty after success. Of
        a task that raised `Reject`, that it was rejected, and why."""
        if self.error_type == _REJECT:
            return f"rejected: {self.error_text}" if self.error_text else "rejected"
        return f"{self.error_type}: {self.error_text}" if self.error_type else self.error_text

    @classmethod
    def of(cls, attempt: Attempt) -> AttemptInfo:
        return cls(
            attempt.number,
            to_datetime(attempt.started_ms),
            to_datetime(attempt.ended_ms),
            attempt.worker,
            attempt.error_type,
            attempt.error_text,
            attempt.traceback,
        )


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """One replay of a job."""

    at: datetime
    by: str
    """Who asked for it; empty if that is not known."""
    before: int
    """How many attempts there were before it."""
    after: int
    """How many there were until the next replay, or until now."""


def replays_of(data: bytes, ended: EndedJob | None = None) -> tuple[ReplayInfo, ...]:
    """The replays of a job with this history, the first of them first."""
    found, before = list[ReplayInfo](), 0
    lives = shown_lives(data)
    for life, ran in lives:
        succeeded = life is lives[-1][0] and ended is not None and _ran_well(ended)
        count = ran + succeeded
        if life.replayed_ms:
            at = to_datetime(life.replayed_ms)
            found.append(ReplayInfo(at, life.replayed_by, before, count))
        before += count
    return tuple(found)


def _ran_well(job: EndedJob) -> bool:
    """Whether its last run succeeded, which is none of the attempts of its history."""
    return job.state is State.DONE and bool(job.started_ms)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When a job ended, and how long it waited and ran."""

    ended: datetime | None = None
    waited: float | None = None
    """Seconds for which it was ready before its last run."""
    took: float | None = None
    """Seconds that its last run took."""
    started: datetime | None = None
    """When its last run began."""
    worker: str | None = None
    """Where a dead job ran last."""

    @classmethod
    def of(cls, snapshot: JobSnapshot) -> RunTimes:
        """Those of a dead job, or of one in the history; of any other, none are known."""
        job = snapshot.ended
        if snapshot.state is State.DEAD:
            return cls._of_dead(snapshot)
        if job is None:
            return cls()
        ran = bool(job.started_ms)
        return cls(
            to_datetime(job.ended_ms),
            max(0, job.started_ms - job.ready_ms) / 1000 if ran and job.ready_ms else None,
            job.took_us / 1_000_000 if ran else None,
            to_datetime(job.started_ms) if ran else None,
        )

    @classmethod
    def _of_dead(cls, snapshot: JobSnapshot) -> RunTimes:
        ended = to_datetime(snapshot.died_ms) if snapshot.died_ms else None
        last = next(reversed(shown_history(snapshot.history).attempts), None)
        # One without a type and a length was given up before it ran.
        if last is None or not (last.error_type or last.ended_ms > last.started_ms):
            return cls(ended)
        took = max(0, last.ended_ms - last.started_ms) / 1000
        waited = max(0, last.started_ms - last.ready_ms) / 1000 if last.ready_ms else None
        return cls(ended, waited, took, to_datetime(last.started_ms), last.worker or None)


def attempts_of(snapshot: JobSnapshot) -> ShownAttempts:
    """The runs of a job that have ended, from before replays too, and the one that succeeded."""
    failed, job = shown_attempts(snapshot.history), snapshot.ended
    if job is None or not _ran_well(job):
        return failed
    ended_ms = job.started_ms + round(job.took_us / 1000)
    last = Attempt(failed.total + 1, job.started_ms, ended_ms, job.worker, "", "", "")
    return ShownAttempts((*failed.attempts, last), failed.total + 1)


async def run_started(store: Store, worker: str, job_id: JobId) -> datetime | None:
    """When the run of a job began that goes on now, as its worker has reported it; None if it has
    not yet, or runs too many."""
    return reported_start(await store.kv_all(WORKERS), worker, job_id)


def reported_start(workers: Mapping[str, bytes], worker: str, job_id: JobId) -> datetime | None:
    """When the run of a job began that goes on now, from the records of all workers; None if none
    has it."""
    record = decode_record(workers.get(worker, b""))
    runs = record.runs if record else ()
    return next((to_datetime(run.started_ms) for run in runs if run.job_id == job_id), None)
