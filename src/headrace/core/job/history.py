"""What has happened to a job so far; kept beside its envelope."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headrace.core.display import plural
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


# Longer histories are shown in part: attempts take many times the memory of their bytes.
_SHOWN_WHOLE = 256 * 1024
_SHOWN_ATTEMPTS = 100
_LARGEST_SHOWN = 64 * 1024
_SHOWN_LIVES = 100
# Of MessagePack: an array of up to fifteen items, as a history is.
_SHORT_ARRAYS = range(0x90, 0xA0)
_split = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class ShownAttempts(NamedTuple):
    """The attempts of a job for people. Where many or large ones are left out, an attempt with
    their number stands in their place."""

    attempts: tuple[Attempt, ...]
    total: int
    """How many there were, those that are left out too."""


def shown_attempts(data: bytes) -> ShownAttempts:
    """The attempts in an encoded history, as `all_attempts` has them; of a history of more than
    256 KiB the last hundred of each life."""
    if len(data) <= _SHOWN_WHOLE:
        every = all_attempts(decode_history(data))
        return ShownAttempts(every, len(every))
    found, count = list[Attempt](), 0
    for life, left_out in _shown_lives(data):
        count += left_out
        if left_out:
            found.append(_in_place_of(left_out, count, life))
        found += (
            msgspec.structs.replace(each, number=number)
            for number, each in enumerate(life.attempts, count + 1)
        )
        count += len(life.attempts)
    return ShownAttempts(tuple(found), count)


def shown_lives(data: bytes) -> list[tuple[History, int]]:
    """The histories between replays, the first of them first, each with the number of its
    attempts, not all of which it may have."""
    return [(life, left_out + len(life.attempts)) for life, left_out in _shown_lives(data)]


def shown_history(data: bytes) -> History:
    """What `decode_history` gives, for people: of a long history with its last attempts alone."""
    return _latest_part(data)[0]


def _shown_lives(data: bytes) -> list[tuple[History, int]]:
    """Each with how many of its attempts are left out."""
    lives = [_latest_part(data)]
    while (earlier := lives[-1][0].earlier) and len(lives) < _SHOWN_LIVES:
        lives.append(_latest_part(earlier))
    return lives[::-1]


def _latest_part(data: bytes) -> tuple[History, int]:
    if len(data) <= _SHOWN_WHOLE:
        return decode_history(data), 0
    if data[0] not in _SHORT_ARRAYS:
        return NO_HISTORY, 0
    try:
        fields = _split(data)
        attempts = _split(fields[0]) if fields else []
        kept = [each for each in attempts[-_SHOWN_ATTEMPTS:] if len(each) <= _LARGEST_SHOWN]
        short = _encode([msgspec.Raw(_encode(kept)), *fields[1:]])
        return _decode_history(short), len(attempts) - len(kept)
    except UNREADABLE:
        return NO_HISTORY, 0


def _in_place_of(left_out: int, number: int, life: History) -> Attempt:
    at_ms = life.attempts[0].started_ms if life.attempts else 0
    text = f"{plural(left_out, 'attempt')} left out here: too many, or too large, to show"
    return Attempt(number, at_ms, at_ms, "", "", text, "")


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
    """Whether `decode_history` can read all of it; of a long one, what is shown of it."""
    return not data or shown_history(data) is not NO_HISTORY
