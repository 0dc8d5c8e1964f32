"""The progress that a running job reports."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from headrace.core.clock import to_datetime
from headrace.errors import ConfigError

MAX_LINE = 4_096
_HAIR = 1e-6


class Progress(msgspec.Struct, array_like=True, frozen=True):
    """The last `ctx.progress(fraction, text)` of a job."""

    fraction: float
    """From 0 to 1."""
    text: str = ""
    """What is being done, for people."""
    at_ms: int = 0
    """By the store's clock."""

    @property
    def at(self) -> datetime:
        """When it was reported."""
        return to_datetime(self.at_ms)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Progress).decode


def encode_progress(progress: Progress) -> bytes:
    return _encode(progress)


def decode_progress(data: bytes) -> Progress | None:
    """None for no progress, and for data that cannot be read."""
    if not data:
        return None
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def check_fraction(fraction: object, name: str = "progress") -> float:
    """`fraction` as a number from 0 to 1; `name` is the function that it was given to."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise ConfigError(f"{name}() takes a number from 0 to 1, not {fraction!r}")
    # Parts that are added up may come out a hair beside the end.
    if not -_HAIR <= fraction <= 1 + _HAIR or math.isnan(fraction):
        raise ConfigError(f"{name}() takes a number from 0 to 1, not {fraction!r}")
    return min(max(float(fraction), 0.0), 1.0)


def check_text(text: object) -> str:
    """The text of a report, as it is stored."""
    if not isinstance(text, str):
        raise ConfigError(
            f"progress() takes a part from 0 to 1 and a text, not {text!r}: for 1 of 5, say "
            "progress(1 / 5)"
        )
    return clean_line(text)


def clean_line(text: object) -> str:
    """Text as it is stored: invalid characters replaced, and cut if it is too long."""
    line = str(text)
    if len(line) > MAX_LINE:
        mark = f"… (cut: {len(line):,} characters)"
        line = line[: MAX_LINE - len(mark)] + mark
    return line if line.isascii() else line.encode("utf-8", "replace").decode()
