"""Figures: what is measured, and what is expected."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import msgspec

Report = Callable[[str], None]
"""Called with what is measured next."""
CONCURRENCY = 512
DEFAULT = 100
"""The slots of a worker by default."""


class Figure(msgspec.Struct, frozen=True):
    """One line of the report. `limit` is the least, or for `at_most` the greatest, value allowed:
    of the ratio to `raw`, or of `value` if there is no `raw`. A value of `enough` is good whatever
    the ratio."""

    name: str
    value: float
    unit: str
    raw: float | None = None
    limit: float | None = None
    at_most: bool = False
    enough: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.raw is None else self.value / self.raw

    @property
    def reached(self) -> bool | None:
        if self.limit is None:
            return None
        if self.enough is not None and self.value >= self.enough:
            return True
        judged = self.value if self.ratio is None else self.ratio
        return judged <= self.limit if self.at_most else judged >= self.limit


class Sizes(msgspec.Struct, frozen=True):
    """How much work each measurement does."""

    drain: int = 100_000
    lone_round: int = 250
    lone_rounds: int = 40
    gathered: int = 10_000
    latency: int = 600
    idle_seconds: float = 10.0
    repeats: int = 3
    sqlite_drain: int = 40_000
    sqlite_lone: int = 2_000
    features: int = 100_000
    one_key: int = 2_000
    lateness: int = 200
    seen: int = 100_000
    """Jobs in the store while the dashboard is measured."""
    plain: int = 100_000
    """Jobs that run in threads: as many as on the loop, to which they are compared."""
    apart: int = 20_000
    """Jobs that run in processes."""
    asleep: int = 20_000
    """Jobs that sleep for a millisecond."""
    alone: int = 20_000
    """Jobs sent one by one, to see what memory they take."""
    compared: int = 100_000
    """Jobs of each drain with something on and off: events, metrics, traces."""
    peers: int = 20_000
    """Jobs that other queues run too."""


QUICK = Sizes(
    drain=30_000,
    lone_rounds=12,
    latency=250,
    idle_seconds=2.0,
    repeats=1,
    sqlite_drain=20_000,
    sqlite_lone=1_000,
    features=10_000,
    one_key=500,
    lateness=40,
    seen=20_000,
    plain=30_000,
    apart=5_000,
    asleep=5_000,
    alone=5_000,
    compared=10_000,
    peers=5_000,
)


def middle(values: Sequence[float]) -> float:
    """The median: one hiccup of a shared machine must not decide."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
