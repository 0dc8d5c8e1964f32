"""Things that are done side by side when a worker ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable

log = logging.getLogger("headrace.worker")

_LEAVE_GRACE = 2.0


async def all_of(works: Iterable[Awaitable[None]]) -> int:
    """Do all of it, whatever fails; how much did."""
    results = await asyncio.gather(*works, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in errors:
        log.error("a part of the worker did not end well", exc_info=error)
    return len(errors)


async def in_time(*works: Awaitable[None]) -> None:
    """Do all of it, as far as the store answers soon."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LEAVE_GRACE):
            await asyncio.gather(*works, return_exceptions=True)
