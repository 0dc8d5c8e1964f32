"""Patterns of topic names: `*` stands for any text, dots included."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from headrace.core.queue_names import check_topic
from headrace.errors import ConfigError

ANY = "*"


def check_patterns(what: str, topics: object) -> tuple[str, ...]:
    """`topics`, a name, a pattern or several of them, as patterns without repetition."""
    given = [topics] if isinstance(topics, str) else topics
    if not isinstance(given, Iterable):
        raise ConfigError(f"{what} takes the name of a topic, a pattern or a list, not {topics!r}")
    found = tuple(dict.fromkeys(check_topic(f"{what}: topic", each) for each in given))
    if not found:
        raise ConfigError(f"{what} names no topic: give a name, or a pattern such as 'orders.*'")
    return found


def matches(pattern: str, topic: str) -> bool:
    return _compiled(pattern).fullmatch(topic) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split(ANY))), re.DOTALL)


def overlap(one: str, other: str) -> bool:
    """Whether there could be a topic that both patterns match."""

    @cache
    def meet(i: int, j: int) -> bool:
        """Whether what is left of both can match the same text."""
        if i == len(one) or j == len(other):
            return set(one[i:] + other[j:]) <= {ANY}
        if one[i] == ANY:
            return meet(i + 1, j) or meet(i, j + 1)
        if other[j] == ANY:
            return meet(i, j + 1) or meet(i + 1, j)
        return one[i] == other[j] and meet(i + 1, j + 1)

    return meet(0, 0)
