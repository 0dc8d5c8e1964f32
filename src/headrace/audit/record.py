"""What is recorded of one delivery."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple, assert_never

import msgspec

from headrace.core.job.history import Attempt, decode_history
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
)

Ended = Literal[
    "done", "retry", "defer", "dead", "cancelled", "held", "released", "left", "lost"
]  # fmt: skip


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One delivery of a job or an event to a worker, and its outcome. It can be the event type of a
    topic."""

    kind: Literal["job", "event"]
    """What was delivered."""
    id: str
    """Of the job or the event; empty if its bytes have none."""
    queue: str
    """For an event the queue of its group, for a broadcast the topic's log."""
    topic: str = ""
    """The topic of an event."""
    group: str = ""
    """The group of an event, or the name of a broadcast."""
    task: str = ""
    """The task's name, or the subscription's; empty if the bytes could not be read."""
    attempt: int
    """Grows with each failure, from 1."""
    delivery: int
    """Grows with each delivery, from 1, also where one before had no outcome."""
    outcome: Ended
    """How the delivery ended."""
    reason: str = ""
    """Why it is dead, or the gate at which it is held."""
    error_type: str = ""
    """The full name of the class of what was raised."""
    error_text: str = ""
    """Its text."""
    started_at: datetime | None = None
    """When the function was entered, by the store's clock; None if it was not."""
    ended_at: datetime
    """By the store's clock."""
    duration_ms: float = 0.0
    """How long the function took."""
    worker: str
    """Who ran it."""
    trace_id: str = ""
    """Of the W3C trace in the headers; without one the correlation id; else empty."""
    correlation_id: str = ""
    """Of an event, as published."""
    headers: dict[str, str] = {}
    """As sent."""
    size: int = 0
    """Bytes of the arguments or the event as they travel."""
    payload: bytes | None = None
    """These bytes, where they are asked for, can be read, and fit into what the sink takes."""

    @property
    def redelivered(self) -> bool:
        """Whether a worker had it before."""
        return self.delivery > 1


class Ending(NamedTuple):
    """An outcome in words."""

    outcome: Ended
    reason: str = ""
    error_type: str = ""
    error_text: str = ""


_DONE = Ending("done")


def ending_of(outcome: Outcome, attempts: int) -> Ending:
    """An outcome in words, for a job that had `attempts` before."""
    match outcome:
        case Done():
            return _DONE
        case Retried() | Dead():
            return _unsuccessful(outcome, decode_history(outcome.history).attempts[attempts:])
        case Held():
            return Ending("held", outcome.gate)
        case Cancelled():
            return Ending("cancelled")
        case Released():
            return Ending("released")
        case Left():
            return Ending("left")
        case _:
            assert_never(outcome)


def _unsuccessful(outcome: Retried | Dead, new: tuple[Attempt, ...]) -> Ending:
    if not new:
        # A run that counts as an attempt would be among them.
        return Ending("defer") if isinstance(outcome, Retried) else Ending("dead", outcome.reason)
    error_type, error_text = new[-1].error_type, new[-1].error_text
    if isinstance(outcome, Dead):
        return Ending("dead", outcome.reason, error_type, error_text)
    return Ending("retry", "", error_type, error_text)
