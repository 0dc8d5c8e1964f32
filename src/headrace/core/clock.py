"""Where time comes from, and the durations and moments that callers give, in milliseconds.

Code that decides by time is given a clock, so that tests can move it.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from headrace.core.bounds import check_seconds
from headrace.errors import ConfigError

Duration = float | timedelta
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class SystemClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def to_datetime(ms: int) -> datetime:
    """The moment this many milliseconds after 1970. Never fails: a value out of range, as only
    broken data has it, gives the first or the last moment that Python knows."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.min if ms < 0 else datetime.max).replace(tzinfo=UTC)


def to_ms(what: str, duration: Duration, *, least: float = 0.0) -> int:
    """Seconds or a timedelta as whole milliseconds, rounded up, so nothing happens early."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    return math.ceil(check_seconds(what, duration, least=least) * 1000)


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")


def read_duration(text: str) -> Duration:
    """A length of time as an environment variable has it: `90`, `90s`, `30m`, `2h`, `7d`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(found[1]) * _UNITS[found[2]]


def epoch_ms(what: str, moment: object) -> int:
    """An aware datetime as whole milliseconds since 1970, rounded up, so nothing happens early."""
    return -((_EPOCH - _aware(what, moment)) // _MILLISECOND)


def epoch_ms_before(what: str, moment: object) -> int:
    """As `epoch_ms`, rounded down: what happened in the same millisecond is not before it."""
    return (_aware(what, moment) - _EPOCH) // _MILLISECOND


def epoch_us(what: str, moment: object) -> int:
    """An aware datetime as microseconds since 1970: as exactly as it was given."""
    return (_aware(what, moment) - _EPOCH) // _MICROSECOND


def from_epoch_us(us: int) -> datetime | None:
    """The moment this many microseconds after 1970; None if Python has no word for it."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None


def _aware(what: str, moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigError(f"{what} must be a datetime with a time zone, not {moment!r}")
    return moment
