"""Percentiles, estimated from a histogram of durations and their exact sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from headrace.core.job.tally import BUCKETS_US

# What is shorter than the first bound is spread from zero on.
_FIRST = BUCKETS_US[0] / 1_000_000
# A bucket reaches down to half of its bound; those of earlier versions, of which a store may have
# some for a day, to a quarter.
_WIDTHS = (2, 4)


@dataclass(slots=True)
class DurationBucket:
    """A number of durations between two bounds, around an estimated middle."""

    least: float
    most: float
    count: int
    middle: float = 0.0

    def __post_init__(self) -> None:
        self.middle = sqrt(self.least * self.most) if self.least else self.most / 2

    def reach(self, middle: float) -> None:
        """Move the middle to this value, or to the nearer bound."""
        self.middle = min(max(middle, self.least), self.most)

    def at(self, share: float) -> float:
        """The value that this share of the durations does not exceed."""
        if not self.least:
            low, high = max(0.0, 2 * self.middle - self.most), min(self.most, 2 * self.middle)
            return low + (high - low) * share
        low = max(self.least, self.middle**2 / self.most)
        return float(low * (self.middle / low) ** (2 * share))


def percentile_of(
    histogram: Mapping[float, int], percent: float, total: float | None = None
) -> float | None:
    """Where in a histogram such as `MinuteStats.durations`, or the sum of several, so many are
    below; None if it is empty. `total` is what all in it come to."""
    left = sum(histogram.values()) * percent / 100
    buckets = _buckets(histogram, total)
    for bucket in buckets:
        if left <= bucket.count:
            return bucket.at(left / bucket.count)
        left -= bucket.count
    return buckets[-1].most if buckets else None


def _buckets(histogram: Mapping[float, int], total: float | None) -> list[DurationBucket]:
    """In their order. If all in them cannot come to so much, nothing is known of that."""
    for width in _WIDTHS if total is not None else ():
        buckets = _spread(histogram, width)
        if total is not None and total >= sum(each.count * each.least for each in buckets):
            _fit(buckets, total)
            return buckets
    return _spread(histogram, _WIDTHS[0])


def _spread(histogram: Mapping[float, int], width: int) -> list[DurationBucket]:
    return [
        DurationBucket(most / width if most > _FIRST else 0.0, most, count)
        for most, count in sorted(histogram.items())
        if count > 0
    ]


def _fit(buckets: Sequence[DurationBucket], total: float) -> None:
    """Move the middles until they come to `total`, those of the longest first: the sum tells most
    about them, and next to nothing about the shortest."""
    over = total - sum(each.count * each.middle for each in buckets)
    for bucket in reversed(buckets):
        was = bucket.middle
        bucket.reach(was + over / bucket.count)
        over -= (bucket.middle - was) * bucket.count
