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
    """Of each kind, the first lines in a second, 20 unless `in_full` says otherwise, are logged by
    the caller, at once. When the second is over, `sum_up` is called with the number of the others
    and the last of them. What comes after 50 kinds in a second counts as one more kind."""

    def __init__(self, sum_up: Callable[[int, Line], None], *, in_full: int = _IN_FULL) -> None:
        self._sum_up = sum_up
        self._in_full = in_full
        self._admitted: dict[Hashable, int] = {}
        self._others: dict[Hashable, tuple[int, Line]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, kind: Hashable, line: Line, count: int = 1) -> bool:
        """Whether this line is to be logged now; otherwise what it is about is counted: `count`."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self.close)
        if kind not in self._admitted and len(self._admitted) >= _KINDS:
            kind = None
        admitted = self._admitted.get(kind, 0)
        if admitted < self._in_full:
            self._admitted[kind] = admitted + 1
            return True
        before, _ = self._others.get(kind, (0, None))
        self._others[kind] = before + count, line
        return False

    def close(self) -> None:
        """Sum up what was counted. The next line begins another second."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        others = self._others
        self._admitted, self._others = {}, {}
        for count, line in others.values():
            self._sum_up(count, line)
