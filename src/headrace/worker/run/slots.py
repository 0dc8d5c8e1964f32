"""How many jobs a worker may hold."""

from __future__ import annotations

import asyncio


class Slots:
    """Free slots. A read may ask for `batch_extra` more jobs, expected to join a batch. If they do
    not, `free` is negative, and they wait for a slot."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self.batch_extra = 0
        self._freed = asyncio.Event()
        self._awaited = False

    async def wait(self) -> None:
        """Return when there is a free slot, or when `poke` is called."""
        if self.free <= 0:
            self._freed.clear()
            self._awaited = True
            await self._freed.wait()
            self._awaited = False

    def take(self, count: int) -> None:
        self.free -= count

    def give(self, count: int = 1) -> None:
        self.free += count
        if self._awaited and self.free > 0:
            self._freed.set()

    def poke(self) -> None:
        self._freed.set()
