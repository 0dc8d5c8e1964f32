"""How much is kept of ended jobs, of dead ones, of events and logs, and for how long."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import msgspec

from headrace.core.bounds import (
    DEAD_KEPT_COUNT,
    DEAD_KEPT_DAYS,
    EVENTS_KEPT,
    LOG_LINES,
    MAX_MS,
    check_count,
)
from headrace.errors import ConfigError

KEPT_COUNT = 1_000
KEPT_MS = 3_600_000
"""What is kept of each queue unless the app says otherwise: the last 1,000, for an hour."""
_MOST_COUNT = 100_000
_MOST_MS = 30 * 86_400_000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"([0-9]+)([smhd])")
_encode = msgspec.msgpack.Encoder().encode

Keep = int | timedelta | tuple[int, timedelta]
"""What `keep_done` and `keep_dead` take: a number of jobs, a time, or both; 0 is nothing."""


class HistoryBounds(msgspec.Struct, frozen=True):
    """The last `most` jobs, and of these the ones that ended in the last `keep_ms`."""

    most: int = KEPT_COUNT
    keep_ms: int = KEPT_MS

    @classmethod
    def of(cls, what: str, given: object) -> HistoryBounds | None:
        """The bounds that a number, a time or both stand for; None for 0, which keeps nothing. With
        a number alone, jobs are kept for 30 days; with a time alone, 100,000 of them."""
        if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], timedelta):
            number, time = cls.of(what, given[0]), cls.of(what, given[1])
            return cls(number.most, time.keep_ms) if number and time else None
        if isinstance(given, timedelta):
            keep_ms = round(given / timedelta(milliseconds=1))
            if not 0 <= keep_ms <= MAX_MS:
                raise ConfigError(f"{what} cannot be {given}")
            return cls(_MOST_COUNT, keep_ms) if keep_ms else None
        if isinstance(given, bool) or not isinstance(given, int):
            raise ConfigError(
                f"{what} must be a number of jobs, a timedelta, both as (1000, timedelta(days=7)), "
                f"or 0, not {given!r}"
            )
        most = check_count(what, given, least=0)
        return cls(most, _MOST_MS) if most else None


def read_keep(text: str) -> Keep:
    """`keep_done` or `keep_dead` as an environment variable has it: `500`, `90s`, `30m`, `2h`,
    `7d`, or `500,7d`."""
    number, comma, time = text.partition(",")
    if comma:
        return int(number), _time(time.strip())
    return _time(text) if text[-1:] in _UNITS else int(text)


def _time(text: str) -> timedelta:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


class QueueRetention(msgspec.Struct, frozen=True):
    """The bounds of one queue."""

    dead: HistoryBounds = HistoryBounds(DEAD_KEPT_COUNT, DEAD_KEPT_DAYS * 86_400_000)
    events: int = EVENTS_KEPT
    log: int = LOG_LINES
    """Lines of each job."""

    def changed(
        self,
        where: str,
        keep_dead: Keep | None,
        keep_events: int | None,
        keep_log: int | None,
    ) -> QueueRetention:
        """These rules, but for what is given; `where` begins the sentence about a wrong value."""
        return QueueRetention(
            self.dead if keep_dead is None else _dead_bounds(f"{where}keep_dead", keep_dead),
            self.events if keep_events is None else _events(f"{where}keep_events", keep_events),
            self.log if keep_log is None else check_count(f"{where}keep_log", keep_log),
        )


def _dead_bounds(what: str, given: object) -> HistoryBounds:
    bounds = HistoryBounds.of(what, given)
    if bounds is None:
        raise ConfigError(f"{what} cannot be {given}: nobody could see or replay a job that failed")
    return bounds


def _events(what: str, given: object) -> int:
    if given == 0 and not isinstance(given, bool):
        raise ConfigError(f"{what} cannot be 0: Headrace(events=False) records none")
    return check_count(what, given)


_DEFAULT = QueueRetention()


class RetentionRules:
    """The bounds of each queue. Queues without bounds of their own have those of the app."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.default = _DEFAULT
        self._own: dict[str, QueueRetention] = {}
        self._on_change = on_change

    def set_default(self, bounds: QueueRetention) -> None:
        """Set the bounds of the app."""
        self.default = bounds
        self._on_change()

    def set(self, queue: str, bounds: QueueRetention) -> None:
        """Give a queue bounds of its own."""
        self._own[queue] = bounds
        self._on_change()

    def of(self, queue: str) -> QueueRetention:
        return self._own.get(queue) or self.default


class HistoryRules:
    """The bounds for each task. Tasks without bounds of their own share those of the app, and a
    *shelf* of each queue's history; one with its own has a shelf of its own, under its name."""

    def __init__(self, default: HistoryBounds | None = None) -> None:
        self.default = default
        self.queues = RetentionRules(self._changed)
        """What is kept of each queue besides."""
        self._own: dict[str, HistoryBounds | None] = {}
        self._encoded: dict[str, bytes] = {}

    def _changed(self) -> None:
        self._encoded.clear()

    def set_default(self, bounds: HistoryBounds | None) -> None:
        """Set the bounds of the app; None keeps no jobs of tasks without their own."""
        self.default = bounds
        self._changed()

    def set(self, task: str, bounds: HistoryBounds | None) -> None:
        """Give a task bounds of its own; None keeps none of its jobs."""
        self._own[task] = bounds
        self._changed()

    def of(self, task: str) -> tuple[str, HistoryBounds | None]:
        """The shelf and the bounds of a task's jobs."""
        return (task, self._own[task]) if task in self._own else ("", self.default)

    @property
    def keeps_any(self) -> bool:
        """Whether jobs of any task are kept."""
        return self.default is not None or any(self._own.values())

    @property
    def has_one(self) -> bool:
        """Whether all tasks share the bounds of the app."""
        return not self._own

    def encoded(self, queue: str) -> bytes:
        """All of them for scripts about a queue: those of the app, then by task, then those of its
        dead jobs unless they are the usual ones, as pairs of number and time; empty if nothing is
        kept, and dead jobs as usual."""
        found = self._encoded.get(queue)
        if found is None:
            own = {task: _pair(bounds) for task, bounds in self._own.items()}
            rules: list[object] = [_pair(self.default), own]
            if (dead := self.queues.of(queue).dead) != _DEFAULT.dead:
                rules.append(_pair(dead))
            found = _encode(rules) if self.keeps_any or len(rules) > 2 else b""
            self._encoded[queue] = found
        return found


def _pair(bounds: HistoryBounds | None) -> tuple[int, int]:
    return (bounds.most, bounds.keep_ms) if bounds else (0, 0)
