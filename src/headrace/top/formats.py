"""Numbers, times and series in few characters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_BLOCKS = "▁▂▃▄▅▆▇█"


def age(seconds: float | None) -> str:
    """`4s`, `12m`, `3h` or `9d`, rounded down; empty for None."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{int(seconds)}s"


def ago(moment: datetime) -> str:
    return age(max(0.0, (datetime.now(UTC) - moment).total_seconds()))


def rate(per_second: float) -> str:
    if per_second <= 0:
        return ""
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s"


def count(number: int) -> str:
    return f"{number:,}" if number else ""


def sparkline(values: Sequence[float]) -> str:
    """A block for each value, scaled to the largest; a blank for zero."""
    most = max(values, default=0.0)
    if most <= 0:
        return " " * len(values)
    steps = len(_BLOCKS) - 1
    return "".join(" " if value <= 0 else _BLOCKS[round(value / most * steps)] for value in values)
