"""Lets the first log lines of a kind through, and counts the rest until they are summed up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Line = TypeVar("Line")

_EVERY = 1.0
_IN_FULL = 20
_KINDS = 50


class Floods(Generic[Line]):
    """Of each kind, the first 20 lines in a second are logged by the caller, at once. When the
    second is over, `sum_up` is called with the number of the others and the last of them. What
    comes after 50 kinds in a second counts as one more kind."""

    def __init__(self, sum_up: Callable[[int, Line], None]) -> None:
        self._sum_up = sum_up
        self._counts: dict[Hashable, int] = {}
        self._last: dict[Hashable, Line] = {}
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, kind: Hashable, line: Line) -> bool:
        """Whether this line is to be logged now; otherwise it is counted."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self.close)
        if kind not in self._counts and len(self._counts) >= _KINDS:
            kind = None
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= _IN_FULL:
            return True
        self._last[kind] = line
        return False

    def close(self) -> None:
        """Sum up what was counted. The next line begins another second."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, last = self._counts, self._last
        self._counts, self._last = {}, {}
        for kind, line in last.items():
            self._sum_up(counts[kind] - _IN_FULL, line)
