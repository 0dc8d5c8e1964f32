"""Live pages that several users have open: rendered once for all of them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.web.live.streams import rest

# Stands in a shared page where each user's own CSRF token goes. It is never sent to anyone, so no
# content can contain it.
TOKEN_PLACEHOLDER = secrets.token_hex(32)
# Pages that differ, such as by their search, are rendered separately.
MOST = 100
# A user who has just opened a page waits at most this long for an update newer than the page.
_SOON = 1.0

Render = Callable[[], Awaitable["PageUpdate"]]


@dataclass(frozen=True, slots=True)
class PageUpdate:
    """A message for all subscribers, and the seconds until the next; None if it is the last. An
    empty message ends the stream."""

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
        """The last update, if it is no older than a moment. Raises what rendering has raised."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()
        update = self._update
        return update if update is not None and update.began >= moment else None

    def request(self) -> None:
        """Have it rendered soon."""
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
    """The shared pages of one dashboard, by what is shown and how much of it may be seen."""

    def __init__(self) -> None:
        self._pages: dict[Hashable, SharedPage] = {}

    @contextmanager
    def subscribed(
        self, key: Hashable, render: Render, wake: asyncio.Event
    ) -> Iterator[SharedPage | None]:
        """Subscribe to a page: each update sets `wake`. None if too many other pages are open."""
        page = self._pages.get(key)
        if page is None:
            if len(self._pages) >= MOST:
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
