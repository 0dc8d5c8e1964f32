"""The built-in strategy: as many consumers as the load calls for."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from headrace.core.scaling.scaling import Scaling
from headrace.core.scaling.snapshot import Load, ScalingSnapshot

ScalingReason = Literal["", "backlog", "age", "idle", "strategy"]
_NONE: ScalingReason = ""


class WantedCount(NamedTuple):
    """What a load calls for."""

    target: int
    reason: ScalingReason
    load: Load


def scale_by_load(snapshot: ScalingSnapshot) -> int:
    """How many consumers the load calls for: more while the backlog is too large or too old, fewer
    while they are idle. The strategy of an app that has none of its own.

    Args:
        snapshot: The consumers, and what waits for them.
    """
    return wanted_by_load(snapshot).target


def wanted_by_load(snapshot: ScalingSnapshot) -> WantedCount:
    """As many as the source needs that is furthest behind: fewer only if none needs them."""
    called = (_wanted(load, snapshot.target, snapshot.scaling) for load in snapshot.loads)
    return max(called, key=lambda one: one.target)


def _wanted(load: Load, target: int, scaling: Scaling) -> WantedCount:
    ours = load.share()
    need, reason = target, _NONE
    if ours.backlog > ours.capacity * scaling.up:
        # Not fewer than the target: consumers that died are replaced anyway.
        need = max(_ceil(ours.backlog / (ours.capacity_each * scaling.up)), need)
        reason = "backlog"
    elif _too_old(ours, scaling):
        need, reason = max(ours.active + 1, need), "age"
    elif ours.backlog < ours.capacity * scaling.down or not ours.backlog + ours.running:
        # Those that stay must have room for all, or more would be called for at once.
        room = ours.capacity_each * min(1.0, scaling.up)
        need, reason = min(_ceil((ours.backlog + ours.running) / room), need), "idle"
    return WantedCount(scaling.within(need), reason, load)


def _too_old(ours: Load, scaling: Scaling) -> bool:
    """Where slots are free, what waits is not waiting for consumers: more would not help."""
    full = ours.running >= ours.capacity * scaling.down
    return bool(
        ours.oldest_age is not None and ours.oldest_age > scaling.age and ours.backlog and full
    )


def _ceil(number: float) -> int:
    return math.ceil(number - 1e-9)
