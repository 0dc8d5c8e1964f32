"""Shares by weight."""

from __future__ import annotations

from collections.abc import Sequence


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
