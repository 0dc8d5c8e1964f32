"""Streams that are open: how many there may be, and what ends them. A server that ends has to end
them first, for it waits for all answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress

MOST = 400
# More tabs than anyone looks at; those that are hidden have none.
MOST_OF_ONE = 20


class Stream:
    """One of them. `wake` is set when there is something to do for it, such as to end."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.ended = False

    def end(self) -> None:
        self.ended = True
        self.wake.set()


class Streams:
    """Those of one dashboard."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()
        self._of: Counter[Hashable] = Counter()
        self._closed = False

    def close(self) -> None:
        """End them all, and those that begin later at once; from the loop's own thread."""
        self._closed = True
        for stream in self._open:
            stream.end()

    @contextmanager
    def opened(self, visitor: Hashable) -> Iterator[Stream | None]:
        """Around one of them; None if there are too many, of that visitor or in all."""
        if len(self._open) >= MOST or self._of[visitor] >= MOST_OF_ONE:
            yield None
            return
        stream = Stream()
        if self._closed:
            stream.end()
        self._open.add(stream)
        self._of[visitor] += 1
        try:
            yield stream
        finally:
            self._open.discard(stream)
            self._of[visitor] -= 1
            if not self._of[visitor]:
                del self._of[visitor]


async def rest(end: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until the end."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await end.wait()
