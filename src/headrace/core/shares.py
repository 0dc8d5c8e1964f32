"""Shares by weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def shares(total: int, weights: Sequence[int], behind: Sequence[float]) -> list[int]:
    """`total` in whole parts, in proportion to the weights, plus what each is `behind` from earlier
    rounds, so that small parts add up; among equals the earlier gets more."""
    whole = sum(weights)
    exact = [total * weight / whole + more for weight, more in zip(weights, behind, strict=True)]
    parts = [max(0, int(part)) for part in exact]
    while sum(parts) < total:
        parts[max(range(len(parts)), key=lambda at: (exact[at] - parts[at], -at))] += 1
    while sum(parts) > total:
        taken = [at for at, part in enumerate(parts) if part]
        parts[min(taken, key=lambda at: (exact[at] - parts[at], -at))] -= 1
    return parts


def still_behind(behind: float, part: float, got: int) -> float:
    """How far a queue is behind after a round that gave it `got` instead of `part`; bounded, so
    that an idle queue cannot hold up others."""
    return min(1.0, max(-1.0, behind + part - got))


def turns(queues: Sequence[str], weights: Mapping[str, int]) -> list[float]:
    """When each of these jobs is to begin, given by its queue: sorted by that, any number of them
    from the first on is shared by weight, and those of one queue keep their order."""
    came: Counter[str] = Counter()
    when = []
    for queue in queues:
        came[queue] += 1
        when.append(came[queue] / weights[queue])
    return when
