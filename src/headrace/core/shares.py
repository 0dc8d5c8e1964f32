"""Dividing what there is by weight."""

from __future__ import annotations

from collections.abc import Sequence


def shares(total: int, weights: Sequence[int], behind: Sequence[float]) -> list[int]:
    """`total` in whole parts, in proportion to the weights, and a little more for those that are
    `behind` from earlier on, so that small parts add up; of equals the earlier gets more."""
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
    """What is behind after a round in which `got` came where `part` was due. Bounded: who had
    nothing to take for long must not make the others wait for long."""
    return min(1.0, max(-1.0, behind + part - got))
