"""When something was, as people say it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.core.times import epoch_ms, epoch_ms_before
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.store.contract import Store

Moment = datetime | timedelta
"""A moment, with a time zone; or how long ago."""

EVER_MS = 2**63


async def between_ms(store: Store, since: Moment | None, until: Moment | None) -> tuple[int, int]:
    """From when to before when, by the store's clock; from the beginning and for ever if nothing
    is said."""
    since_ms = 0 if since is None else await _moment_ms(store, "since", since)
    until_ms = EVER_MS if until is None else await _moment_ms(store, "until", until, epoch_ms)
    return since_ms, until_ms


async def _moment_ms(
    store: Store,
    what: str,
    moment: Moment,
    rounded: Callable[[str, object], int] = epoch_ms_before,
) -> int:
    if isinstance(moment, timedelta):
        return await store.time_ms() - int(moment.total_seconds() * 1000)
    if getattr(moment, "tzinfo", None) is None:
        raise ConfigError(
            f"{what} must be a datetime with a time zone, or a timedelta, not {moment!r}"
        )
    return rounded(what, moment)
