"""`Scaling`: between how many consumers to scale, and how eagerly."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.core import bounds as limits
from headrace.errors import ConfigError

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

    def within(self, wanted: int) -> int:
        """The nearest number that there may be."""
        return min(max(wanted, self.least), self.most)

    @property
    def fixed(self) -> bool:
        return self.least == self.most


def read_range(text: str) -> tuple[int, int]:
    """The least and the most number in `4` or `1..8`; ValueError for anything else."""
    texts = text.split("..")
    least, most = int(texts[0]), int(texts[-1])
    if len(texts) > 2 or not 1 <= least <= most:
        raise ValueError(text)
    return least, most


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
