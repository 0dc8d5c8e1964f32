"""A clock that tests move."""

from __future__ import annotations


class ManualClock:
    """Stands still until it is moved; begins at a fixed moment in 2026."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
