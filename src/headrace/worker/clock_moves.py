"""Has a worker look again at once when a test moves its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from headrace.core.clock import Clock, ManualClock


class ClockMoves:
    """`moved` is called on the worker's loop after each move of a `ManualClock`; never for other
    clocks."""

    def __init__(self, clock: Clock, moved: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._moved = moved
        self._loop = asyncio.get_running_loop()
        self._end: Callable[[], None] | None = None
        self._calls: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        if isinstance(self._clock, ManualClock):
            self._end = self._clock.on_move(self._on_move)

    async def stop(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def _on_move(self) -> None:
        # A loop that was closed without its worker being stopped hears nothing more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        call = asyncio.ensure_future(self._moved())
        self._calls.add(call)
        call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Future[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            # The store may be away: the services find out by themselves, and say so.
            call.exception()
