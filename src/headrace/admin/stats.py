"""What was counted in each minute, for charts; and percentiles, estimated from a histogram of
durations and their exact sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import TYPE_CHECKING, Literal

from headrace.core.clock import to_datetime
from headrace.core.job.tally import BUCKETS_US, RUN, RUN_US, WAIT, WAIT_US

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.values import MinuteCount

_MINUTE_MS = 60_000
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class MinuteStats:
    """What happened to the jobs of one task in one queue, in one minute."""

    minute: datetime
    """When it began, by the store's clock."""
    queue: str
    """The queue, group or shard."""
    task: str
    """The task's name."""
    counts: dict[str, int] = field(default_factory=dict)
    """How often each kind of event happened: `sent`, `done`, `retry`, `dead` and so on."""
    durations: dict[float, int] = field(default_factory=dict)
    """Histogram of run times: upper bound in seconds (the lower is half of it) to number of
    runs."""
    waits: dict[float, int] = field(default_factory=dict)
    """The same for the time that they had waited before."""
    run_seconds: float = 0.0
    """How long all runs took together."""
    wait_seconds: float = 0.0
    """How long all of them had waited."""

    @property
    def p50(self) -> float | None:
        """Seconds that half of the runs took at most, estimated; None if there were none."""
        return self.percentile(50)

    @property
    def p95(self) -> float | None:
        """Seconds that 95 % of the runs took at most, estimated; None if there were none."""
        return self.percentile(95)

    @property
    def wait_p50(self) -> float | None:
        """Seconds that half of the runs had waited at most; None if there were none."""
        return self.percentile(50, of="waits")

    @property
    def wait_p95(self) -> float | None:
        """Seconds that 95 % of the runs had waited at most; None if there were none."""
        return self.percentile(95, of="waits")

    def percentile(
        self, percent: float, of: Literal["durations", "waits"] = "durations"
    ) -> float | None:
        """Seconds that this share of the runs took, or had waited, at most: estimated from the
        histogram and the sum, mostly to a few percent, at worst to two fifths.

        Args:
            percent: From 0 to 100.
            of: `durations` or `waits`.
        """
        if of == "durations":
            return percentile_of(self.durations, percent, self.run_seconds)
        return percentile_of(self.waits, percent, self.wait_seconds)


async def read_stats(
    store: Store, queues: Sequence[str], minutes: int, now_ms: int | None = None
) -> list[MinuteStats]:
    """The counters of the last `minutes`, the running one included. One call to the store, and one
    more without `now_ms`."""
    now = await store.time_ms() if now_ms is None else now_ms
    counted = await store.stats(queues, now // _MINUTE_MS - minutes + 1) if queues else {}
    found = [each for queue, counts in counted.items() for each in _gathered(queue, counts)]
    return sorted(found, key=lambda stats: (stats.minute, stats.queue, stats.task))


def _gathered(queue: str, counts: Iterable[MinuteCount]) -> Iterable[MinuteStats]:
    by_place: dict[tuple[int, str], dict[str, int]] = {}
    for each in counts:
        by_place.setdefault((each.minute, each.task), {})[each.kind] = each.count
    for (minute, task), kinds in by_place.items():
        yield MinuteStats(
            to_datetime(minute * _MINUTE_MS),
            queue,
            task,
            run_seconds=kinds.pop(RUN_US, 0) / _SECOND_US,
            wait_seconds=kinds.pop(WAIT_US, 0) / _SECOND_US,
            durations=_histogram(kinds, RUN),
            waits=_histogram(kinds, WAIT),
            counts={kind: n for kind, n in kinds.items() if not kind.startswith((RUN, WAIT))},
        )


def _histogram(kinds: dict[str, int], prefix: str) -> dict[float, int]:
    return {
        int(kind.removeprefix(prefix)) / _SECOND_US: count
        for kind, count in kinds.items()
        if kind.startswith(prefix)
    }


# The first bucket begins at zero.
_FIRST = BUCKETS_US[0] / 1_000_000
# A bucket reaches down to half of its bound; those of earlier versions, which a store may hold for
# a day, to a quarter.
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
    """The value that `percent` of the durations do not exceed, in a histogram such as
    `MinuteStats.durations`; None if it is empty. `total` is the sum of the durations."""
    left = sum(histogram.values()) * percent / 100
    buckets = _buckets(histogram, total)
    for bucket in buckets:
        if left <= bucket.count:
            return bucket.at(left / bucket.count)
        left -= bucket.count
    return buckets[-1].most if buckets else None


def _buckets(histogram: Mapping[float, int], total: float | None) -> list[DurationBucket]:
    """Sorted. A `total` that does not fit the histogram is ignored."""
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
    """Move the middles until they add up to `total`, the longest first: the sum says most about
    those, and next to nothing about the shortest."""
    over = total - sum(each.count * each.middle for each in buckets)
    for bucket in reversed(buckets):
        was = bucket.middle
        bucket.reach(was + over / bucket.count)
        over -= (bucket.middle - was) * bucket.count
