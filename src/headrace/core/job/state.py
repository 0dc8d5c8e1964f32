"""The states of a job, and the reasons why one is dead."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    BLOCKED = "blocked"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in FINAL


LIVE = (State.RUNNING, State.WAITING, State.BLOCKED, State.SCHEDULED)
"""The states of jobs that go on, the nearest to an end first."""
ENDED = (State.DONE, State.CANCELLED)
"""The states of jobs that the history keeps: nothing brings them back."""
FINAL = (State.DEAD, *ENDED)
"""The states in which no run is to come; that of a dead job may, if somebody replays it."""


class Reason(StrEnum):
    """Why a job is dead."""

    RETRIES_EXHAUSTED = "retries_exhausted"
    NOT_RETRYABLE = "not_retryable"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    DEFERS_EXHAUSTED = "defers_exhausted"
    CRASH_LOOP = "crash_loop"
    EXPIRED = "expired"
    MALFORMED = "malformed"
    NEWER_FORMAT = "newer_format"
    OVERSIZE = "oversize"
    UNKNOWN_TASK = "unknown_task"
    BAD_ARGUMENTS = "bad_arguments"
    BAD_RESULT = "bad_result"
    PARENT_FAILED = "parent_failed"
    BAD_EVENT = "bad_event"
    WRONG_VERSION = "wrong_version"
    KEY_FAILED = "key_failed"
    PAYLOAD_UNAVAILABLE = "payload_unavailable"


REFUSED = {
    Reason.BAD_ARGUMENTS, Reason.BAD_EVENT, Reason.CRASH_LOOP, Reason.EXPIRED, Reason.MALFORMED,
    Reason.NEWER_FORMAT, Reason.OVERSIZE, Reason.PAYLOAD_UNAVAILABLE, Reason.UNKNOWN_TASK,
    Reason.WRONG_VERSION,
}  # fmt: skip
"""Reasons for which a worker gives up a job before it enters the function."""
