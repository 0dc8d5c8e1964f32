"""Jobs that go back for others: the same error gives the same outcome."""

from __future__ import annotations

import random

from headrace.core.job.failure import moved_on
from headrace.core.job.history import NO_HISTORY, History, decode_history
from headrace.core.job.unknown import back_for_others

HOUR = 3_600_000


class Whole(random.Random):
    """Spreads nothing."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_it_waits_longer_each_time_and_is_dead_at_the_end() -> None:
    history, now, delays = NO_HISTORY, 1_000_000, []
    while (back := back_for_others(history, 1, now, HOUR, Whole())) is not None:
        history = decode_history(back.history)
        delays.append(back.delay_ms)
        now += back.delay_ms
    assert now == 1_000_000 + HOUR
    assert delays[:7] == [100, 100, 100, 100, 100, 125, 156]
    assert max(delays) == 10_000
    # The last ends with the hour.
    assert delays[:-1] == sorted(delays[:-1])
    assert history == History(unknown_since_ms=1_000_000)


def test_the_delivery_does_not_count_but_crashes_do() -> None:
    back = back_for_others(History((), 2, 1), 3, 5_000, HOUR)
    assert back is not None
    assert decode_history(back.history) == History((), 4, 3, unknown_since_ms=5_000)


def test_a_fallback_that_fails_has_not_to_wait_again() -> None:
    moved = moved_on(History(unknown_since_ms=5), 1)
    assert moved == History(deliveries=1, unknown_since_ms=5)


def test_without_patience_it_is_dead_at_once() -> None:
    assert back_for_others(NO_HISTORY, 1, 5_000, 0) is None


def test_a_clock_that_was_set_back_makes_no_wait_longer() -> None:
    back = back_for_others(History(unknown_since_ms=9_000), 1, 5_000, HOUR, Whole())
    assert back is not None
    assert back.delay_ms == 100
