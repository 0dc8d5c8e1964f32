"""A `fetch` that waits for jobs."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId


class FetchWait:
    """One `fetch` that waits, on its loop."""

    def __init__(self, loop: AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._until = loop.time() + seconds
        self._bell = asyncio.Event()
        self._over = False

    def ring(self, _: Sequence[JobId] | None) -> None:
        self._bell.set()

    def end(self) -> None:
        """May be called from any thread."""
        self._over = True
        self._loop.call_soon_threadsafe(self._bell.set)

    async def rung(self) -> bool:
        """Wait for a notification; False if the time is over or the wait was ended."""
        try:
            async with asyncio.timeout_at(self._until):
                await self._bell.wait()
        except TimeoutError:
            return False
        self._bell.clear()
        return not self._over
