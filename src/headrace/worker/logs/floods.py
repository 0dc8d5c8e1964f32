"""Lets the first log lines of a kind through, and counts the rest until they are summed up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Line = TypeVar("Line")

_EVERY = 1.0
_IN_FULL = 5
_KINDS = 50


class Floods(Generic[Line]):
    """Of each kind, the first five lines in a second are logged by the caller. When the second is
    over, `sum_up` is called with the number of the others and the last of them. A kind that goes on
    is only summed up from then on, until a second passes without it. What comes after 50 kinds in a
    second counts as one more kind."""

    def __init__(self, sum_up: Callable[[int, Line], None]) -> None:
        self._sum_up = sum_up
        self._counts: dict[Hashable, int] = {}
        self._flooding: frozenset[Hashable] = frozenset()
        self._last: dict[Hashable, Line] = {}
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, kind: Hashable, line: Line) -> bool:
        """Whether this line is to be logged now; otherwise it is counted."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self.flush)
        if kind not in self._counts and len(self._counts) >= _KINDS:
            kind = None
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= _IN_FULL and kind not in self._flooding:
            return True
        self._last[kind] = line
        return False

    def flush(self) -> None:
        """Sum up what was counted, and begin anew."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, last, flooding = self._counts, self._last, self._flooding
        self._counts, self._last, self._flooding = {}, {}, frozenset(last)
        if last:
            # To notice when it is over.
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self.flush)
        for kind, line in last.items():
            self._sum_up(counts[kind] - (0 if kind in flooding else _IN_FULL), line)

    def close(self) -> None:
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
