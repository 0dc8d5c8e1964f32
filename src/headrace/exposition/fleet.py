"""Counters of all workers, added up from the store's counters of each minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core.job.tally import RUN, RUN_US, WAIT, WAIT_US
from headrace.metrics.totals import ByTask

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.admin.stats import MinuteStats

_SECOND_US = 1_000_000
# The store keeps them for a day.
_MOST_MINUTES = 24 * 60

Cell = tuple[datetime, str, str, str]


class FleetCounters:
    """Counters that start at zero with the first update and never go down, whatever the store
    forgets. Updates may be up to a day apart."""

    def __init__(self) -> None:
        self._seen: dict[Cell, int] = {}
        self._updated_at: float | None = None
        self._counts: dict[str, ByTask] = {}
        self._updating = threading.Lock()

    @property
    def counts(self) -> dict[str, ByTask]:
        """As of the last update, by queue and task, under the names of a `Tally` and kinds of
        events."""
        return self._counts

    async def update(self, admin: Admin) -> None:
        """Add what the store has counted since the last update; does nothing while another
        update is under way."""
        # One at a time: an answer that is overtaken by a newer one would be counted twice.
        if not self._updating.acquire(blocking=False):
            return
        try:
            self._add(await admin.stats(self._minutes()), first=self._updated_at is None)
            # The time after the answer: minutes that it left out must not be asked for next.
            self._updated_at = time.monotonic()
        finally:
            self._updating.release()

    def _minutes(self) -> int:
        since = 0.0 if self._updated_at is None else time.monotonic() - self._updated_at
        # The running minute and the one before: both may have grown since the last update.
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
