"""How much to ask of each stream, so that a read stays within what its worker has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.core.job.capacity import Capacity, Runner
from headrace.core.job.delivery import LeasedDelivery, Receipt
from headrace.store.redis.keys import runner_of_label

Stream = tuple[str, Runner]
"""The name of a stream, and the runner of its jobs."""


def even_share(streams: Sequence[Stream], limit: int, capacity: Capacity) -> int:
    """How many jobs one command may ask of each stream, which is the same for all; 0 if even one of
    each may be too many."""
    each = limit // len(streams) if streams else 0
    for runner, count in Counter(runner for _, runner in streams).items():
        each = min(each, capacity.of(runner) // count)
    return each


def few_of(streams: Sequence[Stream], limit: int, capacity: Capacity) -> list[Stream]:
    """The first streams from which one job each is not too many."""
    few: list[Stream] = []
    taken: Counter[Runner] = Counter()
    for stream in streams:
        runner = stream[1]
        if len(few) < limit and taken[runner] < capacity.of(runner):
            few.append(stream)
            taken[runner] += 1
    return few


def remaining(
    limit: int, capacity: Capacity | None, found: Sequence[LeasedDelivery]
) -> tuple[int, Capacity]:
    """What is left of limit and capacity after these; without a capacity, only the limit counts."""
    if capacity is None:
        left = limit - len(found)
        return left, Capacity(left, left, left)
    if not found:
        return limit, capacity
    taken = Counter(runner_at(delivery.receipt) for delivery in found)
    # The jobs of a batch may be more than there was room for.
    room = Capacity(
        max(0, capacity.loop - taken["loop"]),
        max(0, capacity.thread - taken["thread"]),
        max(0, capacity.process - taken["process"]),
    )
    return limit - len(found), room


def divided(
    found: Sequence[LeasedDelivery], limit: int, capacity: Capacity
) -> tuple[list[LeasedDelivery], list[LeasedDelivery]]:
    """The first ones that there is room for, and the others."""
    kept: list[LeasedDelivery] = []
    others: list[LeasedDelivery] = []
    taken: Counter[Runner] = Counter()
    for delivery in found:
        runner = runner_at(delivery.receipt)
        fits = len(kept) < limit and taken[runner] < capacity.of(runner)
        (kept if fits else others).append(delivery)
        taken[runner] += fits
    return kept, others


def runner_at(receipt: Receipt) -> Runner:
    """The runner among whose jobs a delivery waited."""
    return runner_of_label(receipt) if isinstance(receipt, bytes) else "loop"
