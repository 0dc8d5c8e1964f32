"""How many ended jobs are kept, and for how long: the bounds of the history."""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec

from headrace.core.bounds import MAX_MS, check_count
from headrace.errors import ConfigError

KEPT_COUNT = 1_000
KEPT_MS = 3_600_000
"""What is kept of each queue unless the app says otherwise: the last 1,000, for an hour."""
_MOST_COUNT = 100_000
_MOST_MS = 30 * 86_400_000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"([0-9]+)([smhd])")
_encode = msgspec.msgpack.Encoder().encode

KeepDone = int | timedelta
"""What `keep_done` takes: a number of jobs, a time, or 0."""


class HistoryBounds(msgspec.Struct, frozen=True):
    """The last `most` jobs, and of these the ones that ended in the last `keep_ms`."""

    most: int = KEPT_COUNT
    keep_ms: int = KEPT_MS

    @classmethod
    def of(cls, what: str, given: object) -> HistoryBounds | None:
        """The bounds that a number or a time stands for; None for 0, which keeps nothing. With a
        number, jobs are kept for 30 days; with a time, 100,000 of them."""
        if isinstance(given, timedelta):
            keep_ms = round(given / timedelta(milliseconds=1))
            if not 0 <= keep_ms <= MAX_MS:
                raise ConfigError(f"{what} cannot be {given}")
            return cls(_MOST_COUNT, keep_ms) if keep_ms else None
        if isinstance(given, bool) or not isinstance(given, int):
            raise ConfigError(f"{what} must be a number of jobs, a timedelta or 0, not {given!r}")
        most = check_count(what, given, least=0)
        return cls(most, _MOST_MS) if most else None


def read_keep_done(text: str) -> KeepDone:
    """`keep_done` as an environment variable has it: `500`, `90s`, `30m`, `2h`, `7d`."""
    if found := _TIME.fullmatch(text):
        return timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    return int(text)


class HistoryRules:
    """The bounds for each task. Tasks without bounds of their own share those of the app, and a
    *shelf* of each queue's history; one with its own has a shelf of its own, under its name."""

    def __init__(self, default: HistoryBounds | None = None) -> None:
        self.default = default
        self._own: dict[str, HistoryBounds | None] = {}
        self._encoded: bytes | None = None

    def set_default(self, bounds: HistoryBounds | None) -> None:
        """Set the bounds of the app; None keeps no jobs of tasks without their own."""
        self.default = bounds
        self._encoded = None

    def set(self, task: str, bounds: HistoryBounds | None) -> None:
        """Give a task bounds of its own; None keeps none of its jobs."""
        self._own[task] = bounds
        self._encoded = None

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

    @property
    def encoded(self) -> bytes:
        """All of them for scripts: those of the app, then by task, as pairs of number and time;
        empty if nothing is kept."""
        if self._encoded is None:
            own = {task: _pair(bounds) for task, bounds in self._own.items()}
            self._encoded = _encode([_pair(self.default), own]) if self.keeps_any else b""
        return self._encoded


def _pair(bounds: HistoryBounds | None) -> tuple[int, int]:
    return (bounds.most, bounds.keep_ms) if bounds else (0, 0)
