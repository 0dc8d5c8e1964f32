"""How many jobs a worker may hold."""

from __future__ import annotations

import asyncio

HELD = 512
"""How many jobs a worker may hold if its functions never wait: larger reads would be no cheaper."""
_SOON = 0.05
_EVIDENCE = 32
"""After how many jobs in a row that have ended at once the next ones are expected to."""


class Slots:
    """Free slots. A read may ask for `ahead` more jobs, expected to start within a moment, and for
    `batch_extra` more, expected to join a batch. While they do not, `free` is negative, and they
    wait for a slot. At most `most` are held, if that is more than there are slots. Runs in threads
    take no more than `threads` slots: others of them wait, for a thread."""

    def __init__(self, total: int, most: int = 0, threads: int = 0) -> None:
        self.total = total
        self._threads = threads
        self._in_threads = 0
        self.free = total
        self.ahead = 0
        self.batch_extra = 0
        self._most_ahead = max(0, most - total)
        self._last_full = 0
        self._ended_at_once = 0
        self._freed = asyncio.Event()
        self._awaited = False

    @property
    def room(self) -> int:
        """How many more jobs may be held. None while many wait for threads, and few more could: the
        threads have enough to do, and each read takes time from them."""
        queued = self.queued
        room = self.free + self.ahead - queued
        return room if 2 * room >= queued else min(room, 0)

    @property
    def queued(self) -> int:
        """Runs that wait for a thread, and have no slot."""
        return max(0, self._in_threads - self._threads)

    async def wait(self) -> None:
        """Return when there is room for a job, or when `poke` is called."""
        if self.room <= 0:
            self._freed.clear()
            self._awaited = True
            await self._freed.wait()
            self._awaited = False

    def learn(self, seconds: float, *, asked: int, came: int) -> None:
        """A read has come back after this time. If all jobs of the full reads before it have begun
        and ended meanwhile, and they were not few, the next ones will start as soon, though they be
        more than there are slots. One that has not ended stops that, unless it is in a thread: how
        soon threads begin the next one is known, and bounds what is asked for. A read that brought
        half counts as full: a store that looks into two streams asks each for half."""
        full = 2 * came >= asked
        in_threads = min(self._in_threads, self._threads)
        soon = full and self.free + in_threads >= self.total and seconds < _SOON
        self._ended_at_once = self._ended_at_once + self._last_full if soon else 0
        known = self._ended_at_once >= _EVIDENCE
        self.ahead = min(max(2 * self.ahead, self.total), self._most_ahead) if known else 0
        self._last_full = came if full else 0

    def take(self, count: int) -> None:
        self.free -= count

    def give(self, count: int = 1) -> None:
        self.free += count
        if self._awaited and self.room > 0:
            self._awaited = False
            self._freed.set()

    def enter_thread(self) -> None:
        """A run that has a slot is given to the threads. It keeps the slot if it may begin now."""
        self._in_threads += 1
        if self._in_threads > self._threads:
            self.free += 1

    def leave_thread(self) -> None:
        """The run has ended, or was withdrawn. Its slot goes to another that waits for a thread, if
        there is one."""
        self._in_threads -= 1
        if self._in_threads < self._threads:
            self.free += 1
        if self._awaited and self.room > 0:
            self._awaited = False
            self._freed.set()

    @property
    def thread_needs_none(self) -> bool:
        """Whether one more run in a thread needs no slot."""
        return self._in_threads >= self._threads

    def poke(self) -> None:
        self._freed.set()
