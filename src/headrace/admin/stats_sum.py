"""Counters of several minutes, tasks or queues, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.admin.stats import MinuteStats, percentile_of

FAILED = ("retry", "dead")


@dataclass(slots=True)
class StatsSum:
    """A sum of counters: of all tasks in a minute, or of one task in many minutes."""

    counts: Counter[str] = field(default_factory=Counter)
    durations: Counter[float] = field(default_factory=Counter)
    waits: Counter[float] = field(default_factory=Counter)
    run_seconds: float = 0.0
    wait_seconds: float = 0.0

    def add(self, other: MinuteStats | StatsSum) -> None:
        self.counts.update(other.counts)
        self.durations.update(other.durations)
        self.waits.update(other.waits)
        self.run_seconds += other.run_seconds
        self.wait_seconds += other.wait_seconds

    @property
    def done(self) -> int:
        return self.counts["done"]

    @property
    def failed(self) -> int:
        """Runs that ended with an error, retried or not."""
        return sum(self.counts[kind] for kind in FAILED)

    def ran(self, percent: float) -> float | None:
        return percentile_of(self.durations, percent, self.run_seconds)

    def waited(self, percent: float) -> float | None:
        return percentile_of(self.waits, percent, self.wait_seconds)

    @classmethod
    def of(cls, parts: Iterable[MinuteStats | StatsSum]) -> StatsSum:
        total = cls()
        for part in parts:
            total.add(part)
        return total
