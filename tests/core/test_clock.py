"""Where time comes from."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.clock import (
    Clock,
    SystemClock,
    epoch_ms,
    epoch_ms_before,
    epoch_us,
    from_epoch_us,
    read_duration,
    to_datetime,
    to_ms,
)
from headrace.errors import ConfigError


def test_the_system_clock_says_milliseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000


def test_a_length_of_time_is_read_from_a_text() -> None:
    texts = ["90", "90s", "1.5m", "2h", "7d"]
    assert [read_duration(text) for text in texts] == [90, 90, 90, 7200, 604_800]
    for odd in ("", "h", "2 h", "-1", "1w"):
        with pytest.raises(ValueError):
            read_duration(odd)


def test_moments_out_of_range_are_the_nearest_that_python_knows() -> None:
    assert to_datetime(10**18).year == 9999
    assert to_datetime(-(10**18)).year == 1
    assert from_epoch_us(10**30) is None


def test_a_moment_is_kept_to_the_microsecond_and_never_comes_early() -> None:
    moment = datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    assert from_epoch_us(epoch_us("at", moment)) == moment
    assert epoch_ms("at", moment) - epoch_ms_before("at", moment) == 1
    with pytest.raises(ConfigError, match="at must be a datetime with a time zone"):
        epoch_us("at", datetime(2030, 1, 1))


def test_seconds_and_timedeltas_are_rounded_up() -> None:
    assert to_ms("delay", 0.0001) == 1
    assert to_ms("delay", timedelta(seconds=2)) == 2000
