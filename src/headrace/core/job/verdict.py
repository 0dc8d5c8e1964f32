"""How a job ended: what callers that wait for it read."""

from __future__ import annotations

import msgspec

from headrace.core.job.envelope import UNREADABLE, Malformed, Packing
from headrace.core.job.state import Reason, State

_encode = msgspec.msgpack.Encoder().encode


class Verdict(msgspec.Struct, array_like=True, frozen=True):
    """How a job ended, kept for `result_ttl`."""

    state: State
    value: bytes = b""
    reason: str = ""
    error_type: str = ""
    error_text: str = ""
    traceback: str = ""
    content: str = ""
    """The content type of the value; empty for MessagePack."""
    packing: Packing | None = None
    lost: str = ""
    """The `repr` of the result, if the job is done and its result cannot travel; `error_text` says
    why."""


CANCELLED_VERDICT = b"\x91" + _encode(State.CANCELLED)
_decode_verdict = msgspec.msgpack.Decoder(Verdict).decode
_DONE_PREFIX = b"\x92" + _encode(State.DONE)


def encode_verdict(verdict: Verdict) -> bytes:
    # Few have the last field.
    return _encode(verdict if verdict.lost else msgspec.structs.astuple(verdict)[:-1])


def done_verdict(value: bytes, content: str = "", packing: Packing | None = None) -> bytes:
    """`encode_verdict(Verdict(State.DONE, value))`, without the fields that are empty."""
    if content or packing is not None:
        return encode_verdict(Verdict(State.DONE, value, content=content, packing=packing))
    return _DONE_PREFIX + _encode(value)


def lost_verdict(problem: str, shown: str) -> bytes:
    """The verdict on a job that is done, whose result cannot travel."""
    return _encode(Verdict(State.DONE, reason=Reason.BAD_RESULT, error_text=problem, lost=shown))


def decode_verdict(data: bytes) -> Verdict:
    """The verdict in `data`, or `Malformed`."""
    try:
        verdict = _decode_verdict(data)
    except UNREADABLE as error:
        raise Malformed(f"not a verdict: {error}") from None
    if not verdict.state.final:
        raise Malformed(f"not a verdict: a job that is {verdict.state} has not ended")
    return verdict
