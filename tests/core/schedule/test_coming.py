"""What people see of a schedule: the ticks to come, and the jobs that were sent by hand."""

from __future__ import annotations

import pytest

from headrace.core.schedule.schedule import MOST_RECENT, decode_record, encode_record
from tests.core.schedule.test_schedule import HOUR, NOON, armed, fired, moment


def test_the_ticks_to_come_are_those_after_now() -> None:
    record = armed()
    assert record.coming(NOON, 3) == [NOON + hours * HOUR for hours in (1, 2, 3)]
    assert record.coming(NOON + 5 * HOUR, 2) == [NOON + hours * HOUR for hours in (6, 7)]
    assert record.coming(NOON, 0) == []


def test_a_tick_that_is_over_does_not_come_again() -> None:
    record, _ = fired(armed(), NOON + 2 * HOUR)
    assert record.coming(NOON, 1) == [NOON + 3 * HOUR]


@pytest.mark.parametrize(("fired_before", "to_come"), [(0, 3), (1, 2), (3, 0)])
def test_no_more_ticks_come_than_the_limit_leaves(fired_before: int, to_come: int) -> None:
    record = armed(limit=3)
    for hours in range(1, fired_before + 1):
        record, _ = fired(record, NOON + hours * HOUR)
    assert len(record.coming(NOON, 10)) == to_come


def test_no_tick_comes_after_the_end() -> None:
    record = armed(end=moment(NOON + 2 * HOUR))
    assert record.coming(NOON, 10) == [NOON + HOUR, NOON + 2 * HOUR]
    assert record.coming(NOON + 2 * HOUR, 10) == []


def test_no_tick_comes_before_the_start() -> None:
    assert armed(start=moment(NOON + 9 * HOUR)).coming(NOON, 1) == [NOON + 9 * HOUR]


def test_nothing_comes_of_a_schedule_that_is_paused() -> None:
    paused = armed().pause()
    assert paused.coming(NOON, 3) == []
    assert paused.resume(NOON + HOUR).coming(NOON, 1) == [NOON + 2 * HOUR]


def test_a_job_that_was_sent_by_hand_is_no_tick() -> None:
    record = armed(limit=1).ran_now(NOON + 5, b"job")
    assert record.manual == ((NOON + 5, b"job"),)
    assert (record.fired, record.last_ms, record.recent) == (0, None, ())
    assert record.next_ms() == NOON + HOUR
    assert decode_record(encode_record(record)) == record


def test_the_latest_jobs_that_were_sent_by_hand_are_kept_and_no_more() -> None:
    record = armed()
    for number in range(MOST_RECENT + 3):
        record = record.ran_now(NOON + number, b"%d" % number)
    assert record.manual == tuple(
        (NOON + number, b"%d" % number) for number in range(3, MOST_RECENT + 3)
    )
