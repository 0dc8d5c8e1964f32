"""Where time comes from."""

from __future__ import annotations

import time

from headrace.core.clock import Clock, SystemClock


def test_the_system_clock_says_milliseconds_since_1970() -> None:
    clock: Clock = SystemClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000
