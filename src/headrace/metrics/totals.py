"""What a worker process has counted since it started, and its health now."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from headrace.core.job.tally import Tally
from headrace.core.sends import Sends
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
    failures: dict[str, int] = {}
    """Failed attempts and dead jobs, by an encoded `Failure`."""
    batches: dict[str, dict[str, int]] = {}
    """By batch task, and by how many jobs or events it was called with."""
    sends: dict[str, dict[str, int]] = {}
    """By queue or log, under the names of `core/sends.py`."""


class Failure(NamedTuple):
    """A kind of failure."""

    queue: str
    task: str
    reason: str
    """Why the job is dead; empty if it is tried again."""
    error: str
    """The type of the error."""


# Types of errors may be made at run time; those beyond this number count as one.
_MOST_FAILURES = 1000
OTHER = "other"


class Totals:
    """Adds up what a worker's settlers write, a batch at a time.

    Written by the worker's threads, read by others: `snapshot` copies whole dicts, which no other
    thread can interrupt.
    """

    def __init__(self, sends: Sends | None = None) -> None:
        self._sends = sends or Sends()
        self._sends.on = True
        self._failures: Counter[Failure] = Counter()
        self._batches: dict[str, Counter[str]] = {}
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

    def count_failure(self, queue: str, task: str, reason: str, error: str) -> None:
        """Count an attempt that failed, or a dead job."""
        failure = Failure(queue, task, reason, error)
        if failure not in self._failures and len(self._failures) >= _MOST_FAILURES:
            failure = Failure(queue, task, reason, OTHER)
        self._failures[failure] += 1

    def count_batch(self, task: str, size: int) -> None:
        """Count one call of a batch task."""
        mine = self._batches.setdefault(task, Counter())
        mine[str(size)] += 1

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
            {_encode(failure): count for failure, count in self._failures.copy().items()},
            {task: dict(sizes) for task, sizes in self._batches.copy().items()},
            self._sends.counts,
        )


def failures_in(snapshot: TotalsSnapshot) -> dict[Failure, int]:
    return {_decode(text): count for text, count in snapshot.failures.items()}


def _encode(failure: Failure) -> str:
    return msgspec.json.encode(failure).decode()


def _decode(text: str) -> Failure:
    return msgspec.json.decode(text, type=Failure)


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
        failures=_sum(each.failures for each in all_of),
        batches=_sum_each(each.batches for each in all_of),
        sends=_sum_each(each.sends for each in all_of),
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


def _sum_each(all_of: Iterable[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for each in all_of:
        for name, counts in each.items():
            found.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in found.items()}


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return dict(found)
