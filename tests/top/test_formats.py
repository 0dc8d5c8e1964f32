"""Times in few characters."""

from __future__ import annotations

import pytest

from headrace.top.tables import age


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (0.9, "0s"),
        (59.6, "59s"),
        (60, "1m"),
        (90, "1m"),
        (3599, "59m"),
        (7199, "1h"),
        (2 * 86_400, "2d"),
    ],
)
def test_an_age_is_what_is_over(seconds: float | None, shown: str) -> None:
    assert age(seconds) == shown
