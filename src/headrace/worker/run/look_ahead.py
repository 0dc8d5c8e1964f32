"""How many more runs a pool may hold than it can start at once."""

from __future__ import annotations

AHEAD = 0.05
"""Seconds within which a run that is held ahead should start."""


class LookAhead:
    """Learns from runs that end. One that took long counts at once, and is forgotten slowly: a run
    that waits here while another worker is idle is worse than a worker that fetches once more."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """What a run takes; 0 while nothing is known."""

    def note(self, *runs: float) -> None:
        """How long the latest runs took, in seconds."""
        known = self.seconds
        for seconds in runs:
            known = seconds if seconds > known else known + (seconds - known) / 8
        self.seconds = known

    def count(self, serving: int) -> int:
        """How many runs beyond the first of each will start soon, if `serving` take one after the
        other."""
        if self.seconds <= 0.0:
            return 0
        return int(serving * AHEAD / self.seconds)
