"""What a worker process has counted since it started, and its health now."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from headrace.core.job.tally import Tally
from headrace.core.workers import Scaled
from headrace.errors import StoreError

ByTask = dict[str, dict[str, int]]
Phase = Literal["starting", "working", "stopping"]
ErrorHook = Callable[[str, BaseException, dict[str, Any]], None]
"""Called with an error: its scope, the error, details."""


class Presence(msgspec.Struct, frozen=True):
    """The health and the load of a worker at this moment."""

    phase: Phase = "starting"
    running: int = 0
    """Jobs that it holds."""
    slots: int = 0
    """Jobs that it can hold at once."""
    lost_leases: int = 0
    """Outcomes refused because the lease was lost, since it started."""
    consumers: dict[str, Scaled] = {}
    """The consumers of each subscription, and the scaling decisions since it started."""
    blocked: float = 0.0
    """Seconds for which its event loop has not answered."""
    silent: float = 0.0
    """Seconds since its heartbeat last did anything."""
    broken: list[str] = []
    """Parts that have failed for good, each in a few words."""


class TotalsSnapshot(msgspec.Struct, frozen=True):
    """The counts of one process, or of several added up."""

    pid: int = 0
    written_at: float = 0.0
    """Monotonic clock, which all processes of a machine share."""
    counts: dict[str, ByTask] = {}
    """By queue and task, under the names of a `Tally`."""
    redeliveries: dict[str, int] = {}
    """By queue."""
    store_errors: dict[str, int] = {}
    """By scope."""
    presence: Presence = Presence()


class Totals:
    """Adds up what a worker's settlers write, a batch at a time.

    Written by the worker's threads, read by others: `snapshot` copies whole dicts, which no other
    thread can interrupt.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[str, str], int]] = {}
        self._redeliveries: Counter[str] = Counter()
        self._store_errors: Counter[str] = Counter()
        self.presence: Callable[[], Presence] = Presence
        """Set by the worker when it starts."""

    def count(self, queue: str, tally: Tally) -> None:
        """Add the tally of a batch of outcomes of one queue."""
        mine = self._counts.get(queue)
        if mine is None:
            mine = self._counts[queue] = {}
        for name, count in tally.counts.items():
            mine[name] = mine.get(name, 0) + count

    def count_redeliveries(self, queue: str, count: int) -> None:
        """Count jobs that were delivered again because their last holder did not settle them."""
        self._redeliveries[queue] += count

    def counting_errors(self, observe: ErrorHook | None) -> ErrorHook:
        """A hook that counts store errors, then calls `observe`."""

        def count(scope: str, error: BaseException, details: dict[str, Any]) -> None:
            if isinstance(error, StoreError):
                self._store_errors[scope] += 1
            if observe is not None:
                observe(scope, error, details)

        return count

    def snapshot(self) -> TotalsSnapshot:
        """The counts now; may be called from any thread."""
        return TotalsSnapshot(
            os.getpid(),
            time.monotonic(),
            {queue: _by_task(counts.copy()) for queue, counts in self._counts.copy().items()},
            dict(self._redeliveries),
            dict(self._store_errors),
            self.presence(),
        )


def _by_task(counts: dict[tuple[str, str], int]) -> ByTask:
    found: ByTask = {}
    for (name, task), count in counts.items():
        found.setdefault(task, {})[name] = count
    return found


def counters_of(snapshot: TotalsSnapshot) -> TotalsSnapshot:
    """The snapshot of a process that has ended: its counters stay, its gauges are zero."""
    presence = snapshot.presence
    consumers = {
        name: msgspec.structs.replace(scaled, count=0, slots=0)
        for name, scaled in presence.consumers.items()
    }
    left = Presence("stopping", lost_leases=presence.lost_leases, consumers=consumers)
    return msgspec.structs.replace(snapshot, presence=left)


def merged(snapshots: Iterable[TotalsSnapshot]) -> TotalsSnapshot:
    """The sum of several snapshots."""
    all_of = list(snapshots)
    counts: dict[str, ByTask] = {}
    for snapshot in all_of:
        for queue, tasks in snapshot.counts.items():
            for task, named in tasks.items():
                mine = counts.setdefault(queue, {})
                mine[task] = _sum([mine.get(task, {}), named])
    return TotalsSnapshot(
        counts=counts,
        redeliveries=_sum(each.redeliveries for each in all_of),
        store_errors=_sum(each.store_errors for each in all_of),
        presence=_presence([each.presence for each in all_of]),
    )


def _presence(all_of: list[Presence]) -> Presence:
    consumers: dict[str, Scaled] = {}
    for presence in all_of:
        for name, scaled in presence.consumers.items():
            consumers[name] = _both(consumers[name], scaled) if name in consumers else scaled
    return Presence(
        "working",
        running=sum(each.running for each in all_of),
        slots=sum(each.slots for each in all_of),
        lost_leases=sum(each.lost_leases for each in all_of),
        consumers=consumers,
    )


def _both(one: Scaled, other: Scaled) -> Scaled:
    return Scaled(
        one.count + other.count,
        one.least,
        one.most,
        one.slots + other.slots,
        _sum([one.ups, other.ups]),
        _sum([one.downs, other.downs]),
        one.replaced + other.replaced,
    )


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return dict(found)
