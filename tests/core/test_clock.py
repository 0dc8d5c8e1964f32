"""Where time comes from."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.clock import (
    Clock,
    ManualClock,
    SystemClock,
    epoch_ms,
    epoch_ms_before,
    epoch_us,
    from_epoch_us,
    read_duration,
    skips_nothing,
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


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
    clock.advance(1.5)
    clock.advance(timedelta(seconds=0.5))
    clock.advance(8, days=3, hours=2, minutes=1)
    assert clock.now() == datetime(2026, 1, 4, 2, 1, 10, tzinfo=UTC)
    clock.move_to(datetime(2030, 1, 1, tzinfo=UTC))
    # One more for each move, as stores add one to each delay.
    assert clock.now_ms() == 1_893_456_000_004
    with pytest.raises(ConfigError, match="move_to"):
        clock.move_to(datetime(2030, 1, 1))


def test_a_manual_clock_does_not_go_back() -> None:
    clock = ManualClock()
    with pytest.raises(ConfigError, match="does not go back, to 2025-12-31T23:59:55"):
        clock.advance(-5)
    with pytest.raises(ConfigError, match=r"at 2026-01-01T00:00:00.* begin earlier"):
        clock.move_to(datetime(2025, 1, 1, tzinfo=UTC))
    clock.move_to(clock.now())
    assert clock.now_ms() == 1_767_225_600_000


def test_a_moved_clock_calls_its_listeners() -> None:
    clock, heard = ManualClock(), list[int]()
    end = clock.on_move(lambda: heard.append(clock.now_ms()))
    clock.advance(1)
    end()
    clock.advance(1)
    assert heard == [1_767_225_601_001]


def test_only_a_manual_clock_skips_nothing() -> None:
    assert skips_nothing(ManualClock())
    assert not skips_nothing(ManualClock(downtime=True))
    assert not skips_nothing(SystemClock())
