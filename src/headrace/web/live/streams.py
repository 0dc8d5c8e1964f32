"""Open event streams: how many there may be, and how they end. A server that stops has to end them
first, since it waits for all responses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress

MOST = 400
# More tabs than anyone looks at; hidden tabs have no stream.
MOST_OF_ONE = 20


class EventStream:
    """One open stream. `wake` is set when there is something to do for it, such as to end."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.ended = False

    def end(self) -> None:
        self.ended = True
        self.wake.set()


class EventStreams:
    """The open streams of one dashboard."""

    def __init__(self) -> None:
        self._open: set[EventStream] = set()
        self._of: Counter[Hashable] = Counter()
        self._closed = False

    def close(self) -> None:
        """End all streams, and later ones as they open; call it in the loop's thread."""
        self._closed = True
        for stream in self._open:
            stream.end()

    @contextmanager
    def opened(self, visitor: Hashable) -> Iterator[EventStream | None]:
        """Open a stream; None if there are too many, of that visitor or in all."""
        if len(self._open) >= MOST or self._of[visitor] >= MOST_OF_ONE:
            yield None
            return
        stream = EventStream()
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
    """Wait for some seconds, or until `end` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await end.wait()
