"""What one job has told of itself and nobody has written down yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from headrace.core.bounds import LOG_LINES


class ReportBuffer:
    """The latest progress, and lines in order; of too many lines the oldest are left out, and the
    first one kept says how many."""

    __slots__ = ("_left_out", "_lines", "progress", "size")

    def __init__(self) -> None:
        self.progress: tuple[float, str] | None = None
        self.size = 0
        """Characters in all lines."""
        self._lines: deque[str] = deque()
        self._left_out = 0

    def __bool__(self) -> bool:
        return self.progress is not None or bool(self._lines) or self._left_out > 0

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._lines.append(line)
            self.size += len(line)
            if len(self._lines) > LOG_LINES:
                self.leave_out_oldest()

    def leave_out_oldest(self) -> None:
        self._left_out += 1
        self.size -= len(self._lines.popleft())

    def lines(self) -> tuple[str, ...]:
        if not self._left_out:
            return tuple(self._lines)
        # In place of the oldest one, so that the note is kept where no more than these are.
        rest = tuple(self._lines)[1:]
        left_out = self._left_out + min(len(self._lines), 1)
        return f"({left_out:,} lines were left out here)", *rest

    def after(self, earlier: ReportBuffer) -> ReportBuffer:
        """These behind earlier ones, which could not be written."""
        both = ReportBuffer()
        both.progress = earlier.progress if self.progress is None else self.progress
        both._left_out = earlier._left_out + self._left_out
        both.add(earlier._lines)
        both.add(self._lines)
        return both
