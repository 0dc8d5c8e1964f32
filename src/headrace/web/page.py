"""What a view returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A template that extends `base.html`, and its context. While the page is open, its block
    `live` is rendered again every `live` seconds; None for never."""

    template: str
    title: str
    context: Mapping[str, Any] = field(default_factory=dict)
    live: float | None = 2.0
    status: int = 200


def interval(calls: float, least: float) -> float:
    """Seconds between two updates that make `calls` calls to the store each, so that no open page
    makes more than five a second."""
    return max(least, calls / 4.5)
