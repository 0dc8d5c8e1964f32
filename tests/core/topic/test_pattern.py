"""Patterns of topic names."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import ConfigError
from headrace.core.topic.pattern import check_patterns, matches, overlap


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("orders.*", ["orders.eu", "orders.eu.paid", "orders."], ["orders", "my.orders.eu"]),
        ("*.eu", ["orders.eu", "a.b.eu"], ["orders.eu.x", "eu"]),
        ("*", ["a", "a.b"], []),
        ("a*b*c", ["abc", "a-b-c", "abbc"], ["ac", "abcd"]),
        ("a.b", ["a.b"], ["axb", "a.b.c"]),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [topic for topic in [*yes, *no] if matches(pattern, topic)] == yes


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("orders.*", "*.eu", True),
        ("orders.*", "orders.eu", True),
        ("orders.*", "bills.*", False),
        ("a*b", "b*a", False),
        ("a*b", "ab", True),
        ("*x*", "a*b", True),
        ("a", "a", True),
        ("a", "b", False),
        ("a**", "a", True),
        ("*a", "*b", False),
    ],
)
def test_patterns_overlap_if_a_name_could_match_both(one: str, other: str, both: bool) -> None:
    assert overlap(one, other) == overlap(other, one) == both


@pytest.mark.parametrize("topics", [[], "", ["a", ""], 5, ["a@b"], [5], "a b", None])
def test_what_names_no_topics_is_refused(topics: Any) -> None:
    with pytest.raises(ConfigError):
        check_patterns("app.subscribe()", topics)


def test_a_name_given_twice_counts_once() -> None:
    assert check_patterns("", ["a", "b.*", "a"]) == ("a", "b.*")
