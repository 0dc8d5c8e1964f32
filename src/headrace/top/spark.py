"""Numbers over time in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """A block for each value, as high as it is against the largest; a blank for nothing."""
    most = max(values, default=0.0)
    if most <= 0:
        return " " * len(values)
    steps = len(_BLOCKS) - 1
    return "".join(" " if value <= 0 else _BLOCKS[round(value / most * steps)] for value in values)
