"""Outcomes that a store refuses: each is found, and holds back no other."""

from __future__ import annotations

import logging

import msgspec

from headrace.core.bounds import RESULT_TTL
from headrace.core.job.failure import describe, moved_on
from headrace.core.job.history import Attempt, decode_history, encode_history
from headrace.core.job.outcome import Dead, Done
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import Verdict, encode_verdict
from headrace.errors import StoreFull, StoreMismatch, StoreUnavailable
from headrace.store.contract import Settlement

log = logging.getLogger("headrace.worker")

# The store is away, full, or not ours: the same for every outcome.
_OF_THE_STORE = (StoreUnavailable, StoreFull, StoreMismatch)


def is_of_one(error: Exception) -> bool:
    """Whether an error may be caused by one of the outcomes."""
    return not isinstance(error, _OF_THE_STORE)


def parts_of(settlements: list[Settlement]) -> list[list[Settlement]]:
    """The halves of a batch that was refused."""
    middle = len(settlements) // 2
    return [settlements[:middle], settlements[middle:]]


def report(refused: Settlement, error: Exception) -> None:
    delivery = refused.delivery
    log.error(
        "the store refused the outcome of job %s of queue %r, so the job is dead: %s",
        *(delivery.id_text, delivery.queue, error),
        extra=delivery.fields,
    )


def instead_of(refused: Settlement, error: Exception, now_ms: int) -> Settlement:
    """The settlement to write instead of a refused one: the job is dead, and its history says
    why."""
    delivery, outcome = refused.delivery, refused.outcome
    history = moved_on(decode_history(delivery.history), delivery.count)
    kind = type(outcome).__name__.lower()
    _, text, _ = describe(error)
    problem = f"its outcome ({kind}) was refused by the store: {text}"
    started_ms = delivery.started_ms or delivery.recorded_ms or now_ms
    attempt = Attempt(len(history.attempts) + 1, started_ms, now_ms, "", "", problem, "")
    history = msgspec.structs.replace(history, attempts=(*history.attempts, attempt))
    ttl_ms = outcome.ttl_ms if isinstance(outcome, Done) else int(RESULT_TTL * 1000)
    verdict = Verdict(State.DEAD, b"", Reason.MALFORMED, "", problem) if ttl_ms else None
    encoded = encode_verdict(verdict) if verdict else b""
    return Settlement(delivery, Dead(Reason.MALFORMED, encode_history(history), encoded, ttl_ms))
