"""`Scaler`: when a number of consumers that is called for becomes the one to have."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from headrace.core.scaling.by_load import ScalingReason, WantedCount, wanted_by_load
from headrace.core.scaling.scaling import Scaling
from headrace.core.scaling.snapshot import Load, ScalingSnapshot


class ScalingDecision(NamedTuple):
    """How many consumers there should be. `reason` is empty if that is as before."""

    target: int
    reason: ScalingReason = ""
    why: str = ""


class Scaler:
    """Decides on the number of consumers, from one look at the load after the other. Counts what it
    decided, by reason, in `ups` and `downs`."""

    def __init__(
        self,
        scaling: Scaling,
        strategy: Callable[[ScalingSnapshot], int | None] | None = None,
        *,
        name: str = "consumers",
    ) -> None:
        self.scaling = scaling
        self.name = name
        """Of what it decides the number, for people and for the strategy."""
        self.target = scaling.least
        self.ups: Counter[str] = Counter()
        self.downs: Counter[str] = Counter()
        self.last = ""
        """The latest change, as a sentence."""
        self._up_since: float | None = None
        self._down_since: float | None = None
        self._most_called_for = 0
        self._changed_at = -math.inf
        self._strategy = strategy

    def decide(self, now: float, *loads: Load) -> ScalingDecision:
        """What to do about the loads of all sources that the consumers serve. Goes straight to the
        number that the strategy calls for, once it has been called for long enough."""
        called = self._called_for(loads) if loads else None
        if called is None:
            return ScalingDecision(self.target)
        self._note(now, called)
        if now < self._changed_at + self.scaling.cooldown:
            return ScalingDecision(self.target)
        if self._held(now, self._up_since):
            return self._change(now, called, called.target)
        if self._held(now, self._down_since):
            return self._change(now, called, self._most_called_for)
        return ScalingDecision(self.target)

    def blind(self) -> None:
        """The load is unknown: nothing changes, and a change must be wanted for the whole
        `hysteresis` again."""
        self._up_since = self._down_since = None

    def _called_for(self, loads: tuple[Load, ...]) -> WantedCount | None:
        """What the strategy calls for; None if it does not know."""
        snapshot = ScalingSnapshot(self.name, loads, self.target, datetime.now(UTC), self.scaling)
        if self._strategy is None:
            return wanted_by_load(snapshot)
        wanted = self._strategy(snapshot)
        if wanted is None:
            self.blind()
            return None
        busiest = max(loads, key=lambda load: load.backlog)
        return WantedCount(self.scaling.within(wanted), "strategy", busiest)

    def _note(self, now: float, called: WantedCount) -> None:
        """Remember since when more, or fewer, are called for."""
        if called.target <= self.target:
            self._up_since = None
        elif self._up_since is None:
            self._up_since = now
        if called.target >= self.target:
            self._down_since = None
        elif self._down_since is None:
            self._down_since, self._most_called_for = now, called.target
        else:
            self._most_called_for = max(self._most_called_for, called.target)

    def _held(self, now: float, since: float | None) -> bool:
        return since is not None and now - since >= self.scaling.hysteresis

    def _change(self, now: float, called: WantedCount, target: int) -> ScalingDecision:
        more = target > self.target
        (self.ups if more else self.downs)[called.reason] += 1
        self.last = f"{self.target} -> {target} ({called.reason}: {called.load})"
        self.target, self._changed_at = target, now
        self.blind()
        return ScalingDecision(target, called.reason, self.last)
