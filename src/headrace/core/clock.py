"""Where time comes from, and the durations and moments that callers give, in milliseconds.

Code that decides by time is given a clock, so that tests can move it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
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


class ManualClock:
    """A clock for tests: stands still until it is moved; begins at a fixed moment in 2026.

    Workers notice at once that it was moved. Time that is skipped counts as if they had worked all
    along: the ticks of schedules in it are fired, and leases that ended in it are over. With
    `downtime`, it counts as time in which no worker ran.

    Stores count milliseconds, and add one to a delay rather than start a job early. So each move on
    is one longer for them: what is due in a minute is due after `advance(60)`.

    Args:
        now_ms: Where it begins, in milliseconds since 1970.
        downtime: Whether time that is skipped counts as time in which no worker ran.
    """

    def __init__(self, now_ms: int = 1_767_225_600_000, *, downtime: bool = False) -> None:
        self.downtime = downtime
        self._now_ms = now_ms
        self._moves = 0
        self._listeners: tuple[Callable[[], None], ...] = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970, as a store counts them."""
        return self._now_ms + self._moves

    def now(self) -> datetime:
        """The moment at which it stands, in UTC."""
        return to_datetime(self._now_ms)

    def advance(
        self,
        seconds: Duration = 0.0,
        *,
        days: float = 0.0,
        hours: float = 0.0,
        minutes: float = 0.0,
    ) -> None:
        """Move it on by this much, all of it together: `advance(90)`, `advance(days=3, hours=2)`,
        or a `timedelta`. It does not go back.

        Args:
            seconds: Seconds or a timedelta.
            days: Days more.
            hours: Hours more.
            minutes: Minutes more.
        """
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        seconds += timedelta(days=days, hours=hours, minutes=minutes).total_seconds()
        self._move(self._now_ms + round(seconds * 1000))

    def move_to(self, moment: datetime) -> None:
        """Move it on to a moment, which is an aware datetime.

        Args:
            moment: An aware datetime.
        """
        self._move(epoch_ms("move_to()", moment))

    def on_move(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each move, in the thread that moves it. Returns what ends that.

        Args:
            listener: A function without parameters.
        """
        self._listeners = (*self._listeners, listener)

        def end() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return end

    def _move(self, now_ms: int) -> None:
        if now_ms < self._now_ms:
            raise ConfigError(
                f"the clock is at {self.now().isoformat()} and does not go back, to "
                f"{to_datetime(now_ms).isoformat()}: begin earlier, with app.testing(now=…)"
            )
        if now_ms > self._now_ms and not self.downtime:
            self._moves += 1
        self._now_ms = now_ms
        for listener in self._listeners:
            listener()


def skips_nothing(clock: Clock) -> bool:
    """Whether the time by which this clock leaps counts as time in which workers worked."""
    return isinstance(clock, ManualClock) and not clock.downtime


def to_datetime(ms: int) -> datetime:
    """The moment this many milliseconds after 1970. Never fails: a value out of range, as only
    broken data has it, gives the first or the last moment that Python knows."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.min if ms < 0 else datetime.max).replace(tzinfo=UTC)


def to_ms(what: str, duration: Duration, *, least: float = 0.0) -> int:
    """Seconds or a timedelta as whole milliseconds, rounded up, so nothing happens early."""
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
