"""Durations and moments that callers give, in milliseconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from headrace.core.bounds import check_seconds
from headrace.errors import ConfigError

Duration = float | timedelta
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(what: str, duration: Duration, *, least: float = 0.0) -> int:
    """Seconds or a timedelta as whole milliseconds, rounded up, so nothing happens early."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    return math.ceil(check_seconds(what, duration, least=least) * 1000)


def epoch_ms(what: str, moment: object) -> int:
    """An aware datetime as whole milliseconds since 1970, rounded up, so nothing happens early."""
    return -((_EPOCH - _aware(what, moment)) // _MILLISECOND)


def epoch_ms_before(what: str, moment: object) -> int:
    """As `epoch_ms`, rounded down: what happened in the same millisecond is not before it."""
    return (_aware(what, moment) - _EPOCH) // _MILLISECOND


def _aware(what: str, moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigError(f"{what} must be a datetime with a time zone, not {moment!r}")
    return moment
