"""Limits and defaults, and the checks of names, labels and numbers that callers give."""

from __future__ import annotations

import unicodedata
from datetime import timedelta
from typing import Literal, get_args

from headrace.errors import ConfigError

LEASE = 30.0
CRASH_LIMIT = 3
TIMEOUT = 300.0
FLOW_COUNTED_MS = 3_600_000
"""How long the ended jobs of a flow are counted after the last of its jobs in a queue."""
RESULT_TTL = 600.0
MAX_PAYLOAD = 4 * 1024 * 1024
# What a call may bring beside its arguments; an envelope larger than both is not one of ours.
MAX_OVERRIDES = 32 * 1024
MAX_ENVELOPE_BESIDE_PAYLOAD = 2 * MAX_OVERRIDES
UNKNOWN_TASK_AFTER = 3600.0
CONCURRENCY = 100
DRAIN = 25.0
DEAD_KEPT_DAYS = 30
DEAD_KEPT_COUNT = 100_000
EVENTS_KEPT = 100_000
EVENTS_TTL = 7 * 86_400
# A queue that holds nothing, and that nobody used for this long, is forgotten.
UNUSED_QUEUE_TTL = 7 * 86_400.0
ACTIONS_KEPT = 90 * 86_400.0
ACTIONS_KEPT_COUNT = 100_000
LOG_LINES = 1000
LOG_TTL = 86_400
# About three thousand years: the longest time that every store can hold.
MAX_MS = 10**14
DEFAULT_QUEUE = "default"

# The text of errors is stored for weeks: longer ones are cut.
MAX_ERROR_TEXT = 2_000
MAX_TRACEBACK = 20_000
# Characters that are kept of a result that cannot travel.
MAX_LOST_RESULT = 1_000

MAX_NAME = 200

Overflow = Literal["reject", "block", "drop_oldest"]
"""What happens to what a full queue has no room for."""
TopicOverflow = Literal["reject", "block", "drop_oldest", "drop_newest"]
"""What happens to events that a full topic has no room for."""


def check_name(what: str, name: object) -> str:
    """`name` if it can be the name of a queue, task or namespace."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{what} must be a non-empty text, not {name!r}")
    if len(name) > MAX_NAME:
        raise ConfigError(f"{what} has {len(name)} characters, at most {MAX_NAME} are allowed")
    bad = {c for c in name if not c.isprintable() or c.isspace() or c in "{}"}
    if bad:
        raise ConfigError(
            f"{what} {name!r} contains {sorted(bad)!r}: spaces, braces and control characters "
            "are not allowed"
        )
    return name


def check_seconds(what: str, value: object, *, least: float = 0.0) -> float:
    """`value` as seconds if it is a timedelta or a finite number, and at least `least`."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{what} must be a number of seconds or a timedelta, not {value!r}")
    try:
        seconds = float(value)
    except OverflowError:
        raise ConfigError(f"{what} is longer than anything lasts") from None
    if not seconds >= least:
        raise ConfigError(f"{what} must be at least {least:g} seconds, not {value!r}")
    if seconds > MAX_MS / 1000:
        raise ConfigError(f"{what} must be at most {MAX_MS / 1000:g} seconds, not {value!r}")
    return seconds


def check_count(what: str, value: object, *, least: int = 1) -> int:
    """`value` if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{what} must be a whole number of at least {least}, not {value!r}")
    return value


def check_flag(what: str, value: object) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what} must be True or False, not {value!r}")
    return value


MAX_LABEL_BYTES = 256
MAX_TAGS = 32


def check_label(what: str, text: object) -> str:
    """`text` if it can be a label: not empty, not long, nothing that does not print."""
    if not isinstance(text, str) or not text:
        raise ConfigError(f"{what} must be a non-empty text, not {text!r}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{what} {text[:80]!r} is not valid text") from None
    if size > MAX_LABEL_BYTES:
        raise ConfigError(f"{what} takes {size} bytes, at most {MAX_LABEL_BYTES} are allowed")
    if any(unicodedata.category(c) == "Cc" for c in text):
        raise ConfigError(f"{what} {text!r} contains control characters")
    return text


def check_overflow(
    where: str, overflow: object, max_length: int | None, what: Literal["queue", "topic"]
) -> None:
    """Refuse an overflow that is none, or that needs a `max_length`."""
    *others, last = map(repr, get_args(Overflow if what == "queue" else TopicOverflow))
    if repr(overflow) not in (*others, last):
        raise ConfigError(
            f"{where}overflow must be {', '.join(others)} or {last}, not {overflow!r}"
        )
    if max_length is None and overflow != "reject":
        raise ConfigError(
            f"{where}overflow={overflow!r} needs max_length=: a {what} without one never overflows"
        )
