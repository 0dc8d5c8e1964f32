"""What has happened to a job so far; kept beside its envelope."""

from __future__ import annotations

import msgspec

from headrace.core.job.envelope import UNREADABLE


class Attempt(msgspec.Struct, array_like=True, frozen=True):
    """One run of a job that did not end in success."""

    number: int
    started_ms: int
    ended_ms: int
    worker: str
    error_type: str
    error_text: str
    traceback: str
    ready_ms: int = 0
    """When the job began to wait for this run; 0 if that is not known."""


class History(msgspec.Struct, array_like=True, frozen=True):
    """What has happened to a job before the current delivery."""

    attempts: tuple[Attempt, ...] = ()
    deliveries: int = 0
    """Deliveries up to the last settlement that recorded them; `LeasedDelivery.count` counts those
    since."""
    crashes: int = 0
    """Of those deliveries, the ones that ended without an outcome."""
    earlier: bytes = b""
    """The encoded history from before the job was last replayed: for people, not counted."""
    replayed_ms: int = 0
    """When it was last replayed; 0 if it never was."""
    replayed_by: str = ""
    """Who did that, if it is known."""
    defers: int = 0
    """How often the job was put off by its function, or because it took too long."""
    unknown_since_ms: int = 0
    """When a worker first met the job and did not know its task, if none has known it since."""
    payload_misses: int = 0
    """How often its payload could not be had, since it last could."""


NO_HISTORY = History()
_encode = msgspec.msgpack.Encoder().encode
_decode_history = msgspec.msgpack.Decoder(History).decode


# What of earlier lives a job takes along.
_EARLIER_ATTEMPTS = 20
_EARLIER_BYTES = 65_536


def encode_history(history: History) -> bytes:
    return _encode(history)


def decode_history(data: bytes) -> History:
    """The history in `data`; empty if there is none or it cannot be read, for a job must not be
    lost over its history."""
    if not data:
        return NO_HISTORY
    try:
        return _decode_history(data)
    except UNREADABLE:
        return NO_HISTORY


def replayed_history(data: bytes, now_ms: int, by: str = "") -> bytes:
    """What a dead job with this history has when it is sent again: none that counts."""
    return _encode(History(earlier=data, replayed_ms=now_ms, replayed_by=by))


def all_attempts(history: History) -> tuple[Attempt, ...]:
    """Every attempt, from before replays too, numbered through."""
    if not history.earlier:
        return history.attempts
    every = [attempt for life in lives_of(history) for attempt in life.attempts]
    return tuple(msgspec.structs.replace(each, number=at) for at, each in enumerate(every, 1))


def deaths(history: History) -> int:
    """How often the job was dead, and was replayed."""
    return len(lives_of(history)) - 1


def lives_of(history: History) -> list[History]:
    """The histories between replays, the first of them first."""
    lives = [history]
    while lives[-1].earlier:
        lives.append(decode_history(lives[-1].earlier))
    return lives[::-1]


def bounded_earlier(history: History) -> bytes:
    """`earlier` as a job takes it along: if it is long, the last attempts, without tracebacks. When
    it was replayed, and so how often it died, stays."""
    if len(history.earlier) <= _EARLIER_BYTES:
        return history.earlier
    lives, data = lives_of(decode_history(history.earlier)), b""
    skipped = sum(len(life.attempts) for life in lives) - _EARLIER_ATTEMPTS
    for life in lives:
        kept = life.attempts[max(skipped, 0) :]
        skipped -= len(life.attempts)
        attempts = tuple(msgspec.structs.replace(each, traceback="") for each in kept)
        data = _encode(msgspec.structs.replace(life, attempts=attempts, earlier=data))
    return data


def is_readable_history(data: bytes) -> bool:
    """Whether `decode_history` can read all of it."""
    return not data or decode_history(data) is not NO_HISTORY
