"""What all workers have counted, added up from the counters of each minute that the store keeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core.job.tally import RUN, RUN_US, WAIT, WAIT_US
from headrace.metrics.totals import ByTask

if TYPE_CHECKING:
    from headrace.admin.stats import MinuteStats
    from headrace.app import Headrace

_SECOND_US = 1_000_000
# For so long the store keeps them.
_MOST_MINUTES = 24 * 60

Cell = tuple[datetime, str, str, str]


class Fleet:
    """Counters that begin at zero when this process first looks, and never go down, whatever the
    store forgets. Between two looks there may be a day."""

    def __init__(self) -> None:
        self._seen: dict[Cell, int] = {}
        self._looked_at: float | None = None
        self._counts: dict[str, ByTask] = {}
        self._looking = threading.Lock()

    @property
    def counts(self) -> dict[str, ByTask]:
        """As of the last look, by queue and task; the names are those of a `Tally`, and kinds of
        events."""
        return self._counts

    async def look(self, app: Headrace) -> None:
        """Add what the store has counted since the last look; nothing if somebody is looking."""
        # One at a time: who is overtaken brings less than is known, and it would count twice.
        if not self._looking.acquire(blocking=False):
            return
        try:
            self._add(await app.admin.stats(self._minutes()), first=self._looked_at is None)
            # The time of the answer: minutes that it did not tell of must not be asked for next.
            self._looked_at = time.monotonic()
        finally:
            self._looking.release()

    def _minutes(self) -> int:
        since = 0.0 if self._looked_at is None else time.monotonic() - self._looked_at
        # The running minute and the one before: both may have grown since they were looked at.
        return min(int(since / 60) + 3, _MOST_MINUTES)

    def _add(self, stats: Sequence[MinuteStats], *, first: bool) -> None:
        seen = {cell: count for each in stats for cell, count in _cells(each)}
        for cell, count in seen.items():
            _, queue, task, name = cell
            mine = self._counts.setdefault(queue, {}).setdefault(task, {})
            more = 0 if first else max(0, count - self._seen.get(cell, 0))
            mine[name] = mine.get(name, 0) + more
        self._seen = seen


def _cells(stats: MinuteStats) -> Iterator[tuple[Cell, int]]:
    counts = {
        **stats.counts,
        **{f"{RUN}{round(most * _SECOND_US)}": n for most, n in stats.durations.items()},
        **{f"{WAIT}{round(most * _SECOND_US)}": n for most, n in stats.waits.items()},
        RUN_US: round(stats.run_seconds * _SECOND_US),
        WAIT_US: round(stats.wait_seconds * _SECOND_US),
    }
    for name, count in counts.items():
        yield (stats.minute, stats.queue, stats.task, name), count
