"""When a schedule ticks: by a cron expression in a time zone, or at an interval.

Cron is read as Debian's cron reads it, by cronsim: five fields, or six, the first for
seconds. When clocks go forward, a fixed time that does not exist comes at the end of the gap; when
they go back, a fixed time comes once, the first time. Expressions with a star for the minute or the
hour, and those with seconds, follow the clock as it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import takewhile

import msgspec

from headrace.core.bounds import check_seconds
from headrace.errors import ConfigError

LEAST_EVERY = 0.1

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Cadence(msgspec.Struct, frozen=True, omit_defaults=True, rename={
    "cron": "c", "every_ms": "e", "zone": "z",
}):  # fmt: skip
    """Either `cron` in `zone`, or `every_ms`."""

    cron: str = ""
    every_ms: int = 0
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not self.cron and self.every_ms < 1:
            raise ValueError("it has neither cron nor every")

    def after(self, moment_ms: int, anchor_ms: int = 0) -> int | None:
        """The first tick later than a moment; None if there is none (within fifty years). Ticks of
        `every` are whole intervals away from `anchor_ms`."""
        return next(self._ticks(moment_ms, anchor_ms), None)

    def between(
        self, after_ms: int, until_ms: int, most: int, anchor_ms: int = 0
    ) -> tuple[list[int], bool]:
        """The latest ticks, `most` of them, later than one moment and not later than another, in
        their order; and whether there were more."""
        # A look at ever longer times before the end: after a year, the last ticks of a schedule
        # that ticks every second must not cost thirty million steps.
        reach_ms = (self.every_ms or 1000) * (most + 1)
        while True:
            start_ms = max(after_ms, until_ms - reach_ms)
            upcoming = self._ticks(start_ms, anchor_ms)
            ticks = list(takewhile(lambda tick: tick <= until_ms, upcoming))
            if start_ms == after_ms or len(ticks) > most:
                return ticks[-most:], len(ticks) > most
            reach_ms *= 4

    def _ticks(self, after_ms: int, anchor_ms: int) -> Iterator[int]:
        return self._cron_ticks(after_ms) if self.cron else self._even_ticks(after_ms, anchor_ms)

    def _even_ticks(self, after_ms: int, anchor_ms: int) -> Iterator[int]:
        tick = after_ms + self.every_ms - (after_ms - anchor_ms) % self.every_ms
        while True:
            yield tick
            tick += self.every_ms

    def _cron_ticks(self, after_ms: int) -> Iterator[int]:
        from cronsim import CronSim, CronSimError

        zone = to_zone(self.zone)
        try:
            start = datetime.fromtimestamp(after_ms // 1000, zone)
            for moment in CronSim(_ALIASES.get(self.cron, self.cron), start):
                tick = int(moment.timestamp()) * 1000
                # Within the hour that comes twice, cronsim looks for a fixed time from its
                # beginning and may find one that has passed.
                if tick > after_ms:
                    yield tick
        except CronSimError as error:
            raise ConfigError(f"cron {self.cron!r} is not one: {error}") from None
        except (OverflowError, ValueError):
            # Beyond the year 9999.
            return


def to_zone(name: str) -> tzinfo:
    """The time zone of this name; `ConfigError` if this machine does not know it."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, TypeError, KeyError):
        raise ConfigError(
            f"time zone {name!r} is not known: use a name such as 'Europe/Berlin' (or, if it is "
            "one, install tzdata)"
        ) from None


def cron_cadence(expression: object, zone: object) -> Cadence:
    """A checked cadence; `ConfigError` says what is wrong."""
    from cronsim import CronSim, CronSimError

    if not isinstance(expression, str):
        raise ConfigError(f"cron must be a text such as '*/5 * * * *', not {expression!r}")
    if not isinstance(zone, str) or not zone:
        raise ConfigError(f"timezone must be a name such as 'Europe/Berlin', not {zone!r}")
    cron = " ".join(expression.split())
    cron = cron.lower() if cron.startswith("@") else cron
    to_zone(zone)
    try:
        CronSim(_ALIASES.get(cron, cron), datetime.fromtimestamp(0, UTC))
    except (CronSimError, ValueError) as error:
        raise ConfigError(f"cron {expression!r} is not one: {_explained(cron, error)}") from None
    cadence = Cadence(cron=cron, zone=zone)
    if cadence.after(0) is None:
        raise ConfigError(f"cron {expression!r} names a time that never comes")
    return cadence


def every_cadence(every: object) -> Cadence:
    """A checked cadence; `ConfigError` says what is wrong."""
    return Cadence(every_ms=round(check_seconds("every", every, least=LEAST_EVERY) * 1000))


def _explained(cron: str, error: Exception) -> str:
    if cron.startswith("@"):
        return f"the names are {', '.join(_ALIASES)}"
    if len(cron.split()) not in (5, 6):
        return "it takes five fields, or six with the second as the first"
    return str(error)
