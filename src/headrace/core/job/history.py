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


class History(msgspec.Struct, array_like=True, frozen=True):
    """What has happened to a job before the current delivery."""

    attempts: tuple[Attempt, ...] = ()
    deliveries: int = 0
    """Deliveries up to the last settlement that recorded them; `LeasedDelivery.count` counts those
    since."""
    crashes: int = 0
    """Of those deliveries, the ones that ended without an outcome."""


NO_HISTORY = History()
_encode = msgspec.msgpack.Encoder().encode
_decode_history = msgspec.msgpack.Decoder(History).decode


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


def is_readable_history(data: bytes) -> bool:
    """Whether `decode_history` can read all of it."""
    return not data or decode_history(data) is not NO_HISTORY
