"""Event streams of live pages: how many there may be, and the pages that they share."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

MOST_STREAMS = 400
# More tabs than anyone looks at; hidden tabs have no stream.
MOST_OF_ONE = 20
# Pages that differ, such as by their search, are rendered separately.
MOST_PAGES = 100


class EventStream:
    """One open stream. `wake` is set when there is an update for it, or when it has to end."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.ended = False

    def end(self) -> None:
        self.ended = True
        self.wake.set()


class EventStreams:
    """The open streams of one dashboard. A server that stops has to `close` them first, since it
    waits for all responses."""

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
        if len(self._open) >= MOST_STREAMS or self._of[visitor] >= MOST_OF_ONE:
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


# In a shared page, in place of each user's own CSRF token. It is never sent, so that no content can
# contain it.
TOKEN_PLACEHOLDER = secrets.token_hex(32)
# Seconds that a user who has just opened a page waits at most for a newer update.
_SOON = 1.0

Render = Callable[[], Awaitable["PageUpdate"]]


@dataclass(frozen=True, slots=True)
class PageUpdate:
    """A message for all subscribers, and the seconds until the next; None after the last. An empty
    message ends the stream."""

    message: str
    pause: float | None
    began: float = 0.0


class SharedPage:
    """One page, rendered again and again while it has subscribers."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self.subscribers: set[asyncio.Event] = set()
        self._update: PageUpdate | None = None
        self._requested = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="headrace-shared-page")

    def since(self, moment: float) -> PageUpdate | None:
        """The last update, if it began at this moment or later. Raises what rendering raised."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()
        update = self._update
        return update if update is not None and update.began >= moment else None

    def request(self) -> None:
        """Render it soon."""
        self._requested.set()

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        try:
            while True:
                began = time.monotonic()
                self._requested.clear()
                made = await self._render()
                self._update = PageUpdate(made.message, made.pause, began)
                self._notify()
                if made.pause is None:
                    return
                await rest(asyncio.Event(), min(made.pause, _SOON))
                await rest(self._requested, max(0.0, made.pause - _SOON))
        finally:
            self._notify()

    def _notify(self) -> None:
        for wake in self.subscribers:
            wake.set()


class SharedPages:
    """The shared pages of one dashboard, by what they show and to which role."""

    def __init__(self) -> None:
        self._pages: dict[Hashable, SharedPage] = {}

    @contextmanager
    def subscribed(
        self, key: Hashable, render: Render, wake: asyncio.Event
    ) -> Iterator[SharedPage | None]:
        """Subscribe to a page: each update sets `wake`. None if too many other pages are open."""
        page = self._pages.get(key)
        if page is None:
            if len(self._pages) >= MOST_PAGES:
                yield None
                return
            page = self._pages[key] = SharedPage(render)
        page.subscribers.add(wake)
        try:
            yield page
        finally:
            page.subscribers.discard(wake)
            if not page.subscribers:
                page.stop()
                del self._pages[key]
