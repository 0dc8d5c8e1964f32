"""How a job ended: what callers that wait for it read."""

from __future__ import annotations

import msgspec

from headrace.core.job.envelope import UNREADABLE, Malformed
from headrace.core.job.state import State

_encode = msgspec.msgpack.Encoder().encode


class Verdict(msgspec.Struct, array_like=True, frozen=True):
    """How a job ended, kept for `result_ttl`."""

    state: State
    value: bytes = b""
    reason: str = ""
    error_type: str = ""
    error_text: str = ""
    traceback: str = ""


CANCELLED_VERDICT = b"\x91" + _encode(State.CANCELLED)
_decode_verdict = msgspec.msgpack.Decoder(Verdict).decode
_DONE_PREFIX = b"\x92" + _encode(State.DONE)


def encode_verdict(verdict: Verdict) -> bytes:
    return _encode(verdict)


def done_verdict(value: bytes) -> bytes:
    """`encode_verdict(Verdict(State.DONE, value))`, without the fields that are empty."""
    return _DONE_PREFIX + _encode(value)


def decode_verdict(data: bytes) -> Verdict:
    """The verdict in `data`, or `Malformed`."""
    try:
        return _decode_verdict(data)
    except UNREADABLE as error:
        raise Malformed(f"not a verdict: {error}") from None
