"""What was counted in each minute, for charts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.client.job import to_datetime

if TYPE_CHECKING:
    from headrace.store.contract import Store
    from headrace.store.values import MinuteCount

_MINUTE_MS = 60_000
_BUCKET = "<"
# Each bucket of the histogram ends at four times the end of the one before it.
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class MinuteStats:
    """What happened to the jobs of one task in one queue, in one minute."""

    minute: datetime
    """When it began, by the store's clock."""
    queue: str
    task: str
    counts: dict[str, int] = field(default_factory=dict)
    """How often each kind of event happened: `sent`, `done`, `retry`, `dead` and so on."""
    durations: dict[float, int] = field(default_factory=dict)
    """Runs by how long they took: seconds at most (and more than a quarter of it) to how many."""

    @property
    def p50(self) -> float | None:
        """Seconds that half of the runs took at most, estimated; None if there were none."""
        return self.percentile(50)

    @property
    def p95(self) -> float | None:
        """Seconds that 95 % of the runs took at most, estimated; None if there were none."""
        return self.percentile(95)

    def percentile(self, percent: float) -> float | None:
        """Seconds that so many of the runs took at most, as if those of one bucket were spread
        evenly over it."""
        left = sum(self.durations.values()) * percent / 100
        for most, count in sorted(self.durations.items()):
            if left <= count:
                least = most / _GROWTH
                return least + (most - least) * left / count
            left -= count
        return None


async def read_stats(store: Store, queues: Iterable[str], minutes: int) -> list[MinuteStats]:
    """The running minute and those before it, `minutes` in all, as far as anything was counted."""
    since = await store.time_ms() // _MINUTE_MS - minutes + 1
    found: list[MinuteStats] = []
    for queue in queues:
        found += _gathered(queue, await store.stats(queue, since))
    return sorted(found, key=lambda stats: (stats.minute, stats.queue, stats.task))


def _gathered(queue: str, counts: Iterable[MinuteCount]) -> Iterable[MinuteStats]:
    found: dict[tuple[int, str], MinuteStats] = {}
    for each in counts:
        minute = to_datetime(each.minute * _MINUTE_MS)
        stats = found.setdefault((each.minute, each.task), MinuteStats(minute, queue, each.task))
        if each.kind.startswith(_BUCKET):
            micros = timedelta(microseconds=int(each.kind.removeprefix(_BUCKET)))
            stats.durations[micros.total_seconds()] = each.count
        else:
            stats.counts[each.kind] = each.count
    return found.values()
