"""Where time comes from. Code that decides by time is given a clock, so tests can move it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class SystemClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def to_datetime(ms: int) -> datetime:
    """The moment that is so many ms after 1970. Never fails: what no calendar has, as a value that
    nobody wrote may, is the first or the last moment that Python knows."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.min if ms < 0 else datetime.max).replace(tzinfo=UTC)
