"""What a failed run means for its job. Pure: the same error gives the same outcome."""

from __future__ import annotations

import math
import random
import traceback

import msgspec

from headrace.core.bounds import MAX_ERROR_TEXT, MAX_MS, MAX_TRACEBACK
from headrace.core.display import cut
from headrace.core.job.history import Attempt, History, bounded_earlier, encode_history
from headrace.core.job.outcome import Dead, Held, Outcome, Retried
from headrace.core.job.retry import MAX_DEFERS, OnTimeout, RemoteError, Retry, full_name
from headrace.core.job.state import Reason, State
from headrace.core.job.verdict import Verdict, encode_verdict
from headrace.errors import Defer, Reject, RetryLater

PAYLOAD_TRIES = 100
"""About an hour and a half."""
_BRAKE_MS, _BRAKE_MOST_MS = 10, 5_000
_OURS = __file__.removesuffix("core/job/failure.py")


class Unfit(Exception):
    """The job cannot be run, now or ever: it is dead for this reason."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def expired() -> Unfit:
    """The error of a job whose time was over before its function was entered."""
    return Unfit(Reason.EXPIRED, "the job expired before it could be started")


class PayloadUnavailable(Exception):
    """The job's payload cannot be had here and now: it goes back for later, or for another worker.
    That takes no attempt. After `PAYLOAD_TRIES` of these in a row the job is dead."""


class GateClosed(Exception):
    """The job may not start now: it waits at this gate, blocked, as if it had not been taken."""

    def __init__(self, gate: str) -> None:
        super().__init__(f"it waits at the gate {gate!r}")
        self.gate = gate


class FailedRun(msgspec.Struct, frozen=True):
    """A run that did not succeed, with all that decides its outcome."""

    error: BaseException
    history: History
    delivered: int
    """Deliveries at the job's present place, this one included."""
    started_ms: int
    ended_ms: int
    worker: str
    retry: Retry
    result_ttl_ms: int
    ready_ms: int = 0
    on_timeout: OnTimeout | None = None
    """What its timeout means, if that is why it ended."""
    max_defers: int | None = MAX_DEFERS


def decide_outcome(run: FailedRun, rng: random.Random | None = None) -> Outcome:
    """Retried, dead or held, and when."""
    error = run.error
    if isinstance(error, Defer):
        return _deferred(run, getattr(error, "delay", 0.0))
    if isinstance(error, GateClosed):
        return Held(error.gate, encode_history(moved_on(run.history, run.delivered)))
    if isinstance(error, PayloadUnavailable):
        return _later(run)
    if isinstance(error, Unfit):
        return _dead(run, error.reason)
    if isinstance(error, Reject):
        return _dead(run, Reason.REJECTED)
    if run.on_timeout == "defer":
        return _deferred(run, 0.0)
    if run.on_timeout == "dead":
        return _dead(run, Reason.TIMED_OUT)
    number = len(run.history.attempts) + 1
    if not isinstance(error, RetryLater) and not run.retry.retries(error):
        return _dead(run, Reason.NOT_RETRYABLE)
    if number >= run.retry.max_attempts:
        return _dead(run, Reason.RETRIES_EXHAUSTED)
    # A subclass may not have called our `__init__`.
    asked = getattr(error, "delay", None) if isinstance(error, RetryLater) else None
    delay = run.retry.delay(number, rng) if asked is None else asked
    return Retried(_ms(delay), encode_history(_failed(run)))


def _later(run: FailedRun) -> Outcome:
    """Again after a pause that grows to a minute."""
    misses = run.history.payload_misses + 1
    if misses >= PAYLOAD_TRIES:
        return _dead(run, Reason.PAYLOAD_UNAVAILABLE)
    moved = moved_on(run.history, run.delivered)
    history = msgspec.structs.replace(moved, payload_misses=misses)
    delay_ms = _ms(min(60.0, 2.0 ** min(misses - 1, 6)))
    return Retried(delay_ms, encode_history(history), deferred=True)


def _deferred(run: FailedRun, delay: float) -> Outcome:
    """Put off, uncounted as an attempt; dead if that was done too often. Without a delay it has a
    brake: a job that defers itself at once, for ever, would keep a worker busy."""
    defers, most = run.history.defers + 1, run.max_defers
    if most is not None and defers > most:
        text = f"it was put off {most:,} times, which is the most that max_defers allows"
        ended = msgspec.structs.replace(run, error=Unfit(Reason.DEFERS_EXHAUSTED, text))
        return _dead(ended, Reason.DEFERS_EXHAUSTED)
    history = msgspec.structs.replace(moved_on(run.history, run.delivered), defers=defers)
    return Retried(_ms(delay) or _brake_ms(defers), encode_history(history), deferred=True)


def _brake_ms(defers: int) -> int:
    return min(_BRAKE_MOST_MS, _BRAKE_MS << min(defers - 1, 16))


def describe(error: BaseException) -> tuple[str, str, str]:
    """An error as text: type, message, traceback; each short enough to be stored."""
    if isinstance(error, RemoteError):
        kind, trace = error.names[0], error.traceback
    elif isinstance(error, Unfit):
        # The task raised nothing: reason and text say it all.
        kind, trace = "", ""
    else:
        kind, trace = full_name(type(error)), _trace(error)
    text = cut(_text(error), MAX_ERROR_TEXT)
    return storable(kind), storable(text), storable(_cut_middle(trace, MAX_TRACEBACK))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:
        return f"<its text cannot be had: {type(broken).__name__}>"


def _trace(error: BaseException) -> str:
    try:
        trace = traceback.TracebackException.from_exception(error)
        # The worker's own frames say nothing about what the function did.
        while len(trace.stack) > 1 and trace.stack[0].filename.startswith(_OURS):
            del trace.stack[0]
        return "".join(trace.format())
    except Exception as broken:
        return f"<its traceback cannot be had: {type(broken).__name__}>"


def storable(text: str) -> str:
    """Without lone surrogates, which cannot be encoded: a job must not be lost over them."""
    return text.encode("utf-8", "replace").decode()


def _dead(run: FailedRun, reason: Reason) -> Dead:
    history = _failed(run)
    last = history.attempts[-1]
    verdict = b""
    if run.result_ttl_ms:
        verdict = encode_verdict(
            Verdict(State.DEAD, b"", reason, last.error_type, last.error_text, last.traceback)
        )
    return Dead(reason, encode_history(history), verdict, run.result_ttl_ms)


def _failed(run: FailedRun) -> History:
    """The history with this run as one more attempt."""
    number = len(run.history.attempts) + 1
    said = describe(run.error)
    attempt = Attempt(number, run.started_ms, run.ended_ms, run.worker, *said, run.ready_ms)
    moved = moved_on(run.history, run.delivered)
    return msgspec.structs.replace(moved, attempts=(*run.history.attempts, attempt))


def cut_short(
    history: History, delivered: int, started_ms: int, ended_ms: int, worker: str
) -> bytes:
    """The history, encoded, of a job that was cancelled while it ran."""
    attempt = Attempt(len(history.attempts) + 1, started_ms, ended_ms, worker, "", "cancelled", "")
    moved = moved_on(history, delivered)
    return encode_history(msgspec.structs.replace(moved, attempts=(*moved.attempts, attempt)))


def moved_on(history: History, delivered: int) -> History:
    """The history of a job that leaves its place after `delivered` deliveries there; all but the
    last ended without an outcome."""
    return History(
        history.attempts,
        history.deliveries + delivered,
        history.crashes + delivered - 1,
        bounded_earlier(history) if history.earlier else b"",
        history.replayed_ms,
        history.replayed_by,
        history.defers,
        history.unknown_since_ms,
    )


def _ms(seconds: float) -> int:
    """Rounded up, so that nothing happens early, and no longer than a store can hold."""
    return math.ceil(min(seconds * 1000, MAX_MS))


def _cut_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - most:,} characters left out …\n{text[-half:]}"
