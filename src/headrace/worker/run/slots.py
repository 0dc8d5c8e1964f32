"""How many jobs a worker may hold."""

from __future__ import annotations

import asyncio


class Slots:
    """A count of free places. A read asks for as many jobs, and `beyond` more that are expected to
    join a batch. If they do not, `free` is below zero, and the surplus waits for a place."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self.beyond = 0
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

    def give(self) -> None:
        self.free += 1
        if self._awaited and self.free > 0:
            self._freed.set()

    def give_back(self, count: int) -> None:
        self.free += count
        if self._awaited and self.free > 0:
            self._freed.set()

    def poke(self) -> None:
        self._freed.set()
