"""`"100/m"` becomes a limit that a store can count by."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.job.constraints import QUEUE_LIMIT
from headrace.core.task.queue_settings import QueueSettings
from headrace.core.task.rate import Rate, task_limit
from headrace.errors import ConfigError

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "most", "window_ms"),
    [
        ("100/m", 100, 60_000),
        ("10/s", 10, 1_000),
        ("1000/h", 1_000, HOUR),
        ("5/d", 5, 24 * HOUR),
        ("3/10s", 3, 10_000),
        ("100/15m", 100, 15 * 60_000),
        ("1/366d", 1, 366 * 24 * HOUR),
        ("1000000/s", 1_000_000, 1_000),
    ],
)
def test_a_rate_says_how_many_in_how_long(text: str, most: int, window_ms: int) -> None:
    assert Rate.of("", text) == Rate(most, window_ms)


@pytest.mark.parametrize(
    "text",
    ["", "100", "/m", "m", "100/", "0/s", "1/0s", "-1/s", "1.5/s", "100/w", "100 / m", "100/m ",
     " 100/m", "1/367d", "1000001/s", "9999999999/s", "\u0661/s", 100, None, b"1/s", True],
)  # fmt: skip
def test_a_bad_rate_is_refused_by_name(text: object) -> None:
    with pytest.raises(ConfigError, match=r"task 'x': rate"):
        Rate.of("task 'x': ", text)


@pytest.mark.parametrize("burst", [0, -1, 11, 1.5, "3", True])
def test_a_burst_is_from_one_to_the_rate(burst: object) -> None:
    with pytest.raises(ConfigError, match="burst"):
        Rate.of("", "10/s", burst)
    assert Rate.of("", "10/s", 10).burst == 10


@pytest.mark.parametrize(
    ("text", "window_ms"), [("1/s", 1_020), ("1/2s", 2_040), ("1/m", 60_050), ("1/d", 86_400_050)]
)
def test_the_window_has_a_margin_because_a_job_begins_after_it_is_allowed_to(
    text: str, window_ms: int
) -> None:
    assert Rate.of("", text).limit("name").window_ms == window_ms


def test_each_rate_key_is_counted_by_itself() -> None:
    rate = Rate.of("", "10/s", 2)
    assert task_limit(rate, "mail", "").name == "rate:mail"
    assert task_limit(rate, "mail", "eu").name == "rate:mail:eu"
    assert task_limit(rate, "mail:eu", "").name == "rate:mail%3Aeu"
    assert (task_limit(rate, "mail", "").most, task_limit(rate, "mail", "").burst) == (10, 2)


def test_the_rate_of_a_queue_has_one_name() -> None:
    limit = QueueSettings.of("mail", "10/s").limit
    assert limit is not None
    assert limit.name == QUEUE_LIMIT


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"name": "two words"}, "queue name"),
        ({"burst": 3}, "'mail': burst"),
        ({"rate": "often"}, "'mail': rate"),
        ({"rate": "1/s", "burst": 2}, "'mail': burst"),
        ({"concurrency": 0}, "'mail': concurrency must be a whole number of at least 1, not 0"),
        ({"max_length": 0}, "'mail': max_length must be a whole number of at least 1, not 0"),
        ({"max_length": True}, "'mail': max_length"),
        ({"max_length": "10"}, "'mail': max_length"),
        ({"max_length": 5, "overflow": "drop"}, "'reject', 'block' or 'drop_oldest', not 'drop'"),
        ({"overflow": "block"}, "'mail': overflow='block' needs max_length="),
    ],
)
def test_settings_of_a_queue_that_cannot_be_are_refused(options: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        QueueSettings.of(**{"name": "mail", **options})


def test_a_queue_may_be_declared_without_settings() -> None:
    assert not QueueSettings.of("mail").says_anything
    assert QueueSettings.of("mail", max_length=1).says_anything
