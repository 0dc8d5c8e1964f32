"""What is kept of ended and dead jobs, of events and logs: as it is said, and as scripts get it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from headrace.core.job.history_rules import (
    HistoryBounds,
    HistoryRules,
    Keep,
    QueueRetention,
    read_keep,
)
from headrace.errors import ConfigError

MONTH_MS = 30 * 86_400_000
WEEK = timedelta(days=7)


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        (500, HistoryBounds(500, MONTH_MS)),
        (timedelta(hours=2), HistoryBounds(100_000, 7_200_000)),
        ((500, WEEK), HistoryBounds(500, 7 * 86_400_000)),
        (0, None),
        (timedelta(0), None),
        ((0, WEEK), None),
    ],
)
def test_a_number_a_time_or_both_are_bounds(given: Keep, bounds: HistoryBounds | None) -> None:
    assert HistoryBounds.of("keep_done", given) == bounds


@pytest.mark.parametrize("odd", [True, "many", 1.5, None, (1, 2), (1, WEEK, 3)])
def test_what_is_no_bound_is_refused_by_name(odd: object) -> None:
    with pytest.raises(ConfigError, match="keep_done must be a number of jobs, a timedelta"):
        HistoryBounds.of("keep_done", odd)


def test_a_time_that_no_store_can_hold_is_refused() -> None:
    for odd in (timedelta(days=-1), timedelta.max):
        with pytest.raises(ConfigError, match="keep_done cannot be"):
            HistoryBounds.of("keep_done", odd)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("500", 500),
        ("90s", timedelta(seconds=90)),
        ("2h", timedelta(hours=2)),
        ("500, 7d", (500, WEEK)),
    ],
)
def test_a_variable_says_the_same(text: str, said: Keep) -> None:
    assert read_keep(text) == said


@pytest.mark.parametrize("odd", ["", "often", "h", "5,6", "2h,5"])
def test_a_variable_that_cannot_be_read_is_no_value(odd: str) -> None:
    with pytest.raises(ValueError):
        read_keep(odd)


def test_a_queue_changes_what_it_says_and_keeps_the_rest() -> None:
    usual = QueueRetention()
    changed = usual.changed("queue 'mail': ", (10, WEEK), None, 7)
    assert changed == QueueRetention(HistoryBounds(10, 7 * 86_400_000), usual.events, 7)
    assert usual.changed("", None, 5, None).events == 5


def test_dead_jobs_and_events_are_kept_in_some_number() -> None:
    with pytest.raises(ConfigError, match="nobody could see or replay a job that failed"):
        QueueRetention().changed("", 0, None, None)
    with pytest.raises(ConfigError, match=r"Headrace\(events=False\) records none"):
        QueueRetention().changed("", None, 0, None)
    with pytest.raises(ConfigError, match="keep_log"):
        QueueRetention().changed("", None, None, 0)


def test_tasks_with_bounds_of_their_own_have_a_shelf_of_their_own() -> None:
    rules = HistoryRules(HistoryBounds(10, 1000))
    assert (rules.has_one, rules.keeps_any) == (True, True)
    rules.set("send", HistoryBounds(3, 500))
    rules.set("forget", None)
    assert rules.of("add") == ("", HistoryBounds(10, 1000))
    assert rules.of("send") == ("send", HistoryBounds(3, 500))
    assert rules.of("forget") == ("forget", None)
    assert (rules.has_one, rules.keeps_any) == (False, True)


def test_scripts_get_the_bounds_of_a_queue_as_they_are_now() -> None:
    rules = HistoryRules()
    assert rules.encoded("mail") == b""
    rules.queues.set("mail", QueueRetention(HistoryBounds(10, 60_000)))
    assert msgspec.msgpack.decode(rules.encoded("mail")) == [[0, 0], {}, [10, 60_000]]
    assert rules.encoded("other") == b""
    rules.set("send", HistoryBounds(3, 500))
    assert msgspec.msgpack.decode(rules.encoded("other")) == [[0, 0], {"send": [3, 500]}]
    rules.set_default(HistoryBounds(1, 2))
    rules.queues.set_default(QueueRetention(HistoryBounds(7, 8)))
    assert msgspec.msgpack.decode(rules.encoded("other")) == [[1, 2], {"send": [3, 500]}, [7, 8]]
