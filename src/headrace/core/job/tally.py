"""Counts of many runs: their outcomes, how long they took, how long they had waited."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import (
    DONE,
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
    UnknownOutcome,
    check_outcomes,
)

BUCKETS_US = tuple(1000 * 2**power for power in range(23))
"""Upper bounds of the histogram's buckets, in microseconds; longer times count in the last one."""

RUN, WAIT = "<", "~"
"""Prefixes of the names of histogram counters, for run times and wait times; an upper bound
follows."""
RUN_US, WAIT_US = "run_us", "wait_us"
"""The names of sums of all these lengths."""

# If more jobs than these end together, the waits of a sample stand for all.
_WAITS_LOOKED_AT = 8

_KINDS: dict[type, str] = {
    Done: "done",
    Retried: "retry",
    Dead: "dead",
    Cancelled: "cancelled",
    Held: "held",
    Released: "released",
}
_KNOWN = frozenset(_KINDS)
_DEFERRED = "deferred"
KINDS = tuple(dict.fromkeys((*_KINDS.values(), _DEFERRED)))
"""The kinds of facts that outcomes make."""


class Settled(Protocol):
    """A delivery and its outcome."""

    @property
    def delivery(self) -> LeasedDelivery: ...
    @property
    def outcome(self) -> Outcome: ...


class SettledColumns:
    """Deliveries that are settled together, by column: a list made in one go costs a fraction of
    what a Python loop over each delivery does."""

    __slots__ = ("attempts", "deliveries", "outcomes", "started_ms", "tasks", "took_us")

    def __init__(self, settled: Sequence[Settled]) -> None:
        self.deliveries = deliveries = [each.delivery for each in settled]
        self.outcomes = [each.outcome for each in settled]
        self.tasks = [delivery.task for delivery in deliveries]
        self.attempts = [delivery.attempt for delivery in deliveries]
        self.started_ms = [delivery.started_ms for delivery in deliveries]
        self.took_us = [delivery.took_us for delivery in deliveries]


class Tally:
    """Counts by name and task, and the columns that were counted. A name is a kind of outcome, a
    bucket of a histogram or a sum."""

    __slots__ = ("columns", "counts")

    def __init__(self, counts: dict[tuple[str, str], int], columns: SettledColumns) -> None:
        self.counts = counts
        self.columns = columns

    @classmethod
    def of(cls, settled: Sequence[Settled], ready_ms: Callable[[LeasedDelivery], int]) -> Tally:
        """The counts of these; `ready_ms` says when a delivery's job began to wait. Raises
        `UnknownOutcome` if an outcome has no kind."""
        counts: dict[tuple[str, str], int] = {}
        columns = SettledColumns(settled)
        tasks = set(columns.tasks)
        for task in tasks:
            mine = columns
            if len(tasks) > 1:
                mine = SettledColumns([each for each in settled if each.delivery.task == task])
            _count_outcomes(counts, task, mine.outcomes)
            _count_times(counts, task, mine, ready_ms)
        return cls(counts, columns)


def _count_outcomes(counts: dict[tuple[str, str], int], task: str, outcomes: list[Outcome]) -> None:
    if outcomes.count(DONE) == len(outcomes):
        # Most batches: a shortcut.
        counts[_KINDS[Done], task] = len(outcomes)
        return
    check_outcomes(outcomes, _KNOWN)
    kinds = list(map(type, outcomes))
    for kind in set(kinds) - {Retried}:
        name = _KINDS[kind], task
        counts[name] = counts.get(name, 0) + kinds.count(kind)
    for outcome in outcomes if Retried in kinds else ():
        if isinstance(outcome, Retried):
            name = kind_of(outcome), task
            counts[name] = counts.get(name, 0) + 1


def kind_of(outcome: Outcome) -> str:
    """The kind of fact that an outcome makes. Raises `UnknownOutcome` if it makes none."""
    if isinstance(outcome, Retried) and outcome.deferred:
        return _DEFERRED
    try:
        return _KINDS[type(outcome)]
    except KeyError:
        raise UnknownOutcome(outcome) from None


def detail_of(outcome: Outcome) -> str:
    """What the fact says beside its kind: a delay in ms, a reason or a gate."""
    match outcome:
        case Retried():
            return str(outcome.delay_ms)
        case Dead():
            return outcome.reason
        case Held():
            return outcome.gate
        case Done() | Cancelled() | Released() | Left():
            return ""
        case _:
            assert_never(outcome)


def _count_times(
    counts: dict[tuple[str, str], int],
    task: str,
    columns: SettledColumns,
    ready_ms: Callable[[LeasedDelivery], int],
) -> None:
    ran, took = columns.deliveries, sorted(columns.took_us)
    # Zero for what did not run: it neither took time nor has stopped waiting.
    if not took[0]:
        took = took[bisect_right(took, 0) :]
        ran = [delivery for delivery in ran if delivery.took_us]
    if not took:
        return
    _add(counts, task, RUN, RUN_US, took, len(took))
    looked_at = ran[:: -(-len(ran) // _WAITS_LOOKED_AT)]
    waits = [(d.started_ms or d.recorded_ms) - ready for d in looked_at if (ready := ready_ms(d))]
    if waits:
        _add(counts, task, WAIT, WAIT_US, sorted(max(0, ms) * 1000 for ms in waits), len(ran))


def _add(
    counts: dict[tuple[str, str], int],
    task: str,
    prefix: str,
    total: str,
    lengths: Sequence[int],
    stand_for: int,
) -> None:
    """Count lengths, which are sorted, as a sample that stands for `stand_for` of them."""
    each = stand_for / len(lengths)
    counts[total, task] = round(sum(lengths) * each)
    below = 0
    while below < len(lengths):
        bound = BUCKETS_US[min(bisect_left(BUCKETS_US, lengths[below]), len(BUCKETS_US) - 1)]
        upto = len(lengths) if bound == BUCKETS_US[-1] else bisect_right(lengths, bound)
        counts[f"{prefix}{bound}", task] = round(upto * each) - round(below * each)
        below = upto
