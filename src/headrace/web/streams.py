"""Streams that are open: a server that ends has to end them first, for it waits for all answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Streams:
    """Those of one dashboard."""

    def __init__(self) -> None:
        self._ends: set[asyncio.Event] = set()
        self._closed = False

    def close(self) -> None:
        """End them all, and those that begin later at once; from the loop's own thread."""
        self._closed = True
        for end in self._ends:
            end.set()

    @contextmanager
    def opened(self) -> Iterator[asyncio.Event]:
        """Around one of them: what is set when it has to end."""
        end = asyncio.Event()
        if self._closed:
            end.set()
        self._ends.add(end)
        try:
            yield end
        finally:
            self._ends.discard(end)


async def rest(end: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until the end."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await end.wait()
