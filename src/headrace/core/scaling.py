"""How many consumers there should be, and why: decided from what waits and what can be held."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from headrace.core import bounds as limits
from headrace.errors import ConfigError

ScalingReason = Literal["", "backlog", "age", "idle"]
_NONE: ScalingReason = ""
VARIABLES = "HEADRACE_SCALE_"


class Scaling(msgspec.Struct, frozen=True):
    """Between how many consumers to scale, and when. `up` and `down` are multiples of what the
    living consumers can hold at once; times are seconds."""

    least: int
    most: int
    poll: float = 5.0
    up: float = 2.0
    """More consumers are wanted while the backlog exceeds this multiple of their slots."""
    down: float = 0.5
    """Fewer are wanted while the backlog is below this multiple of their slots."""
    age: float = 60.0
    """One more is wanted while all are busy and something has waited for longer than this."""
    hysteresis: float = 10.0
    """How long a change must be wanted before it is made."""
    cooldown: float = 30.0
    """How long nothing is changed after a change."""

    def __post_init__(self) -> None:
        limits.check_count("the least number of consumers", self.least)
        limits.check_count("the largest number of consumers", self.most)
        if self.most < self.least:
            raise ConfigError(
                f"at most {self.most} consumers are fewer than the least number, {self.least}: "
                "write the smaller number first"
            )
        for name, least in _LEAST.items():
            if not least <= getattr(self, name) <= _LARGEST:
                raise ConfigError(
                    f"{_variable(name)} must be a number from {least:g} to {_LARGEST:g}, "
                    f"not {getattr(self, name):g}"
                )
        if self.down >= self.up:
            raise ConfigError(
                f"{VARIABLES}DOWN must be less than {VARIABLES}UP, or what is added would be "
                f"removed again: {self.down:g} is not less than {self.up:g}"
            )

    @classmethod
    def of(cls, least: int, most: int, variables: Mapping[str, str]) -> Scaling:
        """With the settings that the environment has: `HEADRACE_SCALE_POLL`, `_UP`, `_DOWN`,
        `_AGE`, `_HYSTERESIS` and `_COOLDOWN`; one that is blank or not there is the default."""
        given = {}
        for name in _LEAST:
            text = variables.get(_variable(name), "").strip()
            if text:
                given[name] = _number(_variable(name), text)
        return cls(least, most, **given)

    @property
    def fixed(self) -> bool:
        return self.least == self.most


# The least value of each setting that has a variable.
_LEAST = {"poll": 0.01, "up": 0.01, "down": 0.0, "age": 0.0, "hysteresis": 0.0, "cooldown": 0.0}
_LARGEST = 1e6


def _variable(name: str) -> str:
    return VARIABLES + name.upper()


def _number(variable: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{variable}={text!r} is not a number") from None


class Load(NamedTuple):
    """The load of some consumers, from one source. Other consumers, with `elsewhere` slots, share
    the source: each has a part of the load, in proportion to its slots."""

    backlog: float
    """Jobs or events that are waiting; neither scheduled nor blocked ones."""
    oldest_age: float | None
    """Seconds that the oldest has waited; None if nothing waits, or if that is unknown."""
    running: float
    active: int
    """Consumers that are alive; not how many there should be."""
    capacity_each: int
    """What one of them can hold at once."""
    elsewhere: int = 0
    of: str = "jobs"

    @property
    def capacity(self) -> int:
        return self.active * self.capacity_each

    def share(self) -> Load:
        """The part of it that is for these consumers."""
        ours = max(self.active, 1) * self.capacity_each
        part = ours / (ours + self.elsewhere)
        return self._replace(backlog=self.backlog * part, running=self.running * part, elsewhere=0)

    def __str__(self) -> str:
        # The two are read one after the other: the oldest may have been taken in between.
        aged = self.backlog and self.oldest_age is not None
        age = f", the oldest for {self.oldest_age:.1f} s" if aged else ""
        return (
            f"{self.backlog:g} {self.of} wait{age}; {self.running:g} run; {self.active} consumers "
            f"x {self.capacity_each} = {self.capacity} slots"
            + (f", {self.elsewhere} elsewhere" if self.elsewhere else "")
        )


class ScalingDecision(NamedTuple):
    """How many consumers there should be. `reason` is empty if that is as before."""

    target: int
    reason: ScalingReason = ""
    why: str = ""


class _WantedCount(NamedTuple):
    """What one load calls for."""

    target: int
    reason: ScalingReason
    load: Load


class Scaler:
    """Decides on the number of consumers, from one look at the load after the other. Counts what it
    decided, by reason, in `ups` and `downs`."""

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling
        self.target = scaling.least
        self.ups: Counter[str] = Counter()
        self.downs: Counter[str] = Counter()
        self.last = ""
        """The latest change, as a sentence."""
        self._up_since: float | None = None
        self._down_since: float | None = None
        self._most_called_for = 0
        self._changed_at = -math.inf

    def decide(self, now: float, *loads: Load) -> ScalingDecision:
        """What to do about the loads of all sources that the consumers serve: more for the one that
        is furthest behind, fewer only if none needs them. Goes straight to the number that the
        backlog calls for, once it has been called for long enough."""
        if not loads:
            return ScalingDecision(self.target)
        called = max((self._called_for(load) for load in loads), key=lambda call: call.target)
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

    def _note(self, now: float, called: _WantedCount) -> None:
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

    def _called_for(self, load: Load) -> _WantedCount:
        ours, scaling = load.share(), self.scaling
        need, reason = self.target, _NONE
        if ours.backlog > ours.capacity * scaling.up:
            # Not fewer than the target: consumers that died are replaced anyway.
            need = max(_ceil(ours.backlog / (ours.capacity_each * scaling.up)), need)
            reason = "backlog"
        elif self._too_old(ours):
            need, reason = max(ours.active + 1, need), "age"
        elif ours.backlog < ours.capacity * scaling.down or not ours.backlog + ours.running:
            # Those that stay must have room for all, or more would be called for at once.
            room = ours.capacity_each * min(1.0, scaling.up)
            need, reason = min(_ceil((ours.backlog + ours.running) / room), need), "idle"
        return _WantedCount(min(max(need, scaling.least), scaling.most), reason, load)

    def _too_old(self, ours: Load) -> bool:
        """Where slots are free, what waits is not waiting for consumers: more would not help."""
        full = ours.running >= ours.capacity * self.scaling.down
        return bool(
            ours.oldest_age is not None
            and ours.oldest_age > self.scaling.age
            and ours.backlog
            and full
        )

    def _held(self, now: float, since: float | None) -> bool:
        return since is not None and now - since >= self.scaling.hysteresis

    def _change(self, now: float, called: _WantedCount, target: int) -> ScalingDecision:
        more = target > self.target
        (self.ups if more else self.downs)[called.reason] += 1
        self.last = f"{self.target} -> {target} ({called.reason}: {called.load})"
        self.target, self._changed_at = target, now
        self.blind()
        return ScalingDecision(target, called.reason, self.last)


def _ceil(number: float) -> int:
    return math.ceil(number - 1e-9)
