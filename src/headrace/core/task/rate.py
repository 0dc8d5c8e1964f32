"""How often things may start: `"100/m"` in words a store can count by."""

from __future__ import annotations

import math
import re

import msgspec

from headrace.core.bounds import check_count
from headrace.core.job.constraints import Limit, rate_gate
from headrace.errors import ConfigError

MAX_STARTS = 1_000_000
_MAX_WINDOW_MS = 366 * 86_400_000
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE = re.compile(r"([0-9]{1,9})/([0-9]{0,9})([smhd])")


class Rate(msgspec.Struct, frozen=True):
    """At most `most` starts in any `window_ms`; of these `burst` at once if it is not 0."""

    most: int
    window_ms: int
    burst: int = 0

    @classmethod
    def of(cls, where: str, text: object, burst: object = None) -> Rate:
        """The rate that `text` names (`100/m`, `3/10s`), or a `ConfigError` that begins with
        `where`."""
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ConfigError(
                f"{where}rate must be a text like '100/m', '10/s' or '3/10s' "
                f"(units: s, m, h, d), not {text!r}"
            )
        most, window_ms = int(found[1]), int(found[2] or 1) * _UNITS_MS[found[3]]
        if not 1 <= most <= MAX_STARTS:
            raise ConfigError(f"{where}rate {text!r}: between 1 and {MAX_STARTS:,} starts can be")
        if not 0 < window_ms <= _MAX_WINDOW_MS:
            raise ConfigError(f"{where}rate {text!r}: a window lasts from a second to a year")
        if burst is None:
            return cls(most, window_ms)
        if (allowed := check_count(f"{where}burst", burst)) > most:
            raise ConfigError(f"{where}burst is {burst!r}, more than the rate {text!r} allows")
        return cls(most, window_ms, allowed)

    def limit(self, name: str) -> Limit:
        """This rate, counted under `name`. The window is a little longer than asked, because a
        function begins slightly after its start is counted."""
        margin = math.ceil(min(self.window_ms * 0.02, 50))
        return Limit(name, self.most, self.window_ms + margin, self.burst)


def task_limit(rate: Rate, task: str, key: str) -> Limit:
    """The limit of one task's jobs, or of those of them with one `rate_key`."""
    return rate.limit(rate_gate(task, key))
