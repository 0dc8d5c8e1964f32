"""Times as people read them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headrace.core.display import in_local_time, length_text, local_text, period_text, utc_text


@pytest.fixture
def in_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_zone")
@pytest.mark.parametrize(
    ("in_zone", "shown"),
    [("UTC", "2026-01-31 12:00:00 UTC"), ("CET-1", "2026-01-31 13:00:00 CET")],
    indirect=["in_zone"],
)
def test_a_time_names_its_zone(shown: str) -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert local_text(moment) == shown
    assert utc_text(moment) == "2026-01-31 12:00:00 UTC"
    sentence = "It is due at {}, not on 2026-02-31 12:00:00 UTC."
    assert in_local_time(sentence.format(utc_text(moment))) == sentence.format(shown)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "<1 ms"),
        (0.0125, "12 ms"),
        (1.0, "1 s"),
        (2.54, "2.5 s"),
        (34.4, "34 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (7200, "2 h"),
        (86_400 * 12 + 7200, "12 d"),
    ],
)
def test_a_length_has_one_form(seconds: float, shown: str) -> None:
    assert length_text(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.1, "0.1 s"),
        (20, "20 s"),
        (3600, "1 h"),
        (3700.5, "1 h 1 min 40.5 s"),
        (86_400 * 30, "30 d"),
    ],
)
def test_a_period_is_not_rounded(seconds: float, shown: str) -> None:
    assert period_text(seconds) == shown
