"""Pages that are looked at by several people at once: rendered once for all of them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.web.live.streams import rest

# What stands in a rendering where each visitor's own token goes. Nobody is ever told, so nothing
# that is shown can hold it.
TOKEN = secrets.token_hex(32)
# Pages that differ, such as by what is searched for, are rendered each by itself.
MOST = 100
# Who has just opened a page waits no longer than this for a look that is newer than the page.
_SOON = 1.0

Look = Callable[[], Awaitable["Sight"]]


@dataclass(frozen=True, slots=True)
class Sight:
    """A message for all who watch, and when to look again; None for never. Without a message there
    is nothing more to see."""

    message: str
    pause: float | None
    began: float = 0.0


class Watch:
    """One page, looked at again and again while anyone watches."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.watchers: set[asyncio.Event] = set()
        self._sight: Sight | None = None
        self._poked = asyncio.Event()
        self._task = asyncio.create_task(self._go_on(), name="headrace-watch")

    def since(self, moment: float) -> Sight | None:
        """The last sight, if it is no older than a moment. Raises what looking has raised."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()
        sight = self._sight
        return sight if sight is not None and sight.began >= moment else None

    def poke(self) -> None:
        """Have it look soon."""
        self._poked.set()

    def stop(self) -> None:
        self._task.cancel()

    async def _go_on(self) -> None:
        try:
            while True:
                began = time.monotonic()
                self._poked.clear()
                seen = await self._look()
                self._sight = Sight(seen.message, seen.pause, began)
                self._tell()
                if seen.pause is None:
                    return
                await rest(asyncio.Event(), min(seen.pause, _SOON))
                await rest(self._poked, max(0.0, seen.pause - _SOON))
        finally:
            self._tell()

    def _tell(self) -> None:
        for wake in self.watchers:
            wake.set()


class Watches:
    """Those of one dashboard, by what is looked at and who may see how much of it."""

    def __init__(self) -> None:
        self._watches: dict[Hashable, Watch] = {}

    @contextmanager
    def joined(self, key: Hashable, look: Look, wake: asyncio.Event) -> Iterator[Watch | None]:
        """Around watching a page: `wake` is set with each look. None if too many other pages are
        being watched."""
        watch = self._watches.get(key)
        if watch is None:
            if len(self._watches) >= MOST:
                yield None
                return
            watch = self._watches[key] = Watch(look)
        watch.watchers.add(wake)
        try:
            yield watch
        finally:
            watch.watchers.discard(wake)
            if not watch.watchers:
                watch.stop()
                del self._watches[key]
