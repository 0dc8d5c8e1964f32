"""Checks of names, seconds and counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.bounds import MAX_NAME, check_count, check_name, check_seconds
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    "name", ["mail", "a", "shop.mail", "a:b", "größe", "x" * MAX_NAME, "a/b=c"]
)
def test_a_usable_name_is_taken_as_it_is(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "a b", "a\n", "{a}", "a{", "a}", "\x00", "\ud800", "\u3000", "x" * (MAX_NAME + 1)),
        *(None, 5, b"mail", ["mail"]),
    ],
    ids=ascii,
)
def test_an_unusable_name_is_refused_by_what_it_names(name: object) -> None:
    with pytest.raises(ConfigError, match=r"^queue"):
        check_name("queue", name)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_that_is_accepted_can_be_part_of_a_key(name: str) -> None:
    try:
        accepted = check_name("queue", name)
    except ConfigError:
        return
    assert accepted.encode()
    assert not set("{} \t\n") & set(accepted)


@given(st.floats(0, 1e11) | st.integers(0, 10**11))
def test_seconds_come_as_a_float(value: float) -> None:
    seconds = check_seconds("timeout", value)
    assert isinstance(seconds, float)
    assert seconds == value


@pytest.mark.parametrize(
    "value", [-1, -0.001, float("nan"), float("inf"), float("-inf"), "5", None, True, 1j]
)
def test_what_is_no_length_of_time_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^timeout"):
        check_seconds("timeout", value)


def test_seconds_beyond_what_a_float_holds_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^timeout"):
        check_seconds("timeout", 10**400)


def test_seconds_may_have_a_least_value() -> None:
    assert check_seconds("lease", 0.05, least=0.05) == 0.05
    with pytest.raises(ConfigError, match=r"lease must be at least 0\.05 seconds"):
        check_seconds("lease", 0.049, least=0.05)


def test_a_count_is_a_whole_number_of_at_least_one() -> None:
    assert check_count("concurrency", 1) == 1
    assert check_count("threads", 0, least=0) == 0


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, float("nan")])
def test_what_is_no_count_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^concurrency"):
        check_count("concurrency", value)
