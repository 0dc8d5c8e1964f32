"""Numbers of things, as people say them."""

from __future__ import annotations


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number with what it counts: `1 job`, `1,200 jobs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
