"""Writes down what running jobs tell of themselves: how far they are, and their logs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from headrace.core.job.ids import JobKey
from headrace.core.job.progress import Progress, encode_progress
from headrace.errors import StoreError
from headrace.store.contract import Settlement, Store
from headrace.store.values import Report
from headrace.worker.run.report_buffer import Words
from headrace.worker.service import Service

log = logging.getLogger("headrace.worker")

_EVERY = 0.25
_IDLE = 3600.0
# Characters of lines that wait in all: a store that is away must not fill the memory.
MOST_WAITING = 16 * 1024 * 1024

Place = tuple[str, JobKey]
"""A queue and a job of it."""


class Reporter(Service):
    """Gathers what all runs tell, from any thread, and writes it at once if nothing was written in
    the last quarter of a second, else together when that is over. Jobs never wait for it."""

    name = "reporter"

    def __init__(
        self,
        store: Store,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._store = store
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._next_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._waiting: dict[Place, Words] = {}
        self._size = 0
        self._writing = asyncio.Lock()

    # Called by runs

    def progress(self, place: Place, fraction: float, text: str) -> None:
        with self._lock, self._waking():
            self._words(place).progress = fraction, text

    def log(self, place: Place, lines: Iterable[str]) -> None:
        with self._lock, self._waking():
            words = self._words(place)
            self._size -= words.size
            words.add(lines)
            self._size += words.size
            self._limit()

    # Writing

    async def step(self) -> float:
        rest = self._next_at - self._monotonic()
        if self._waiting and rest <= 0:
            self._next_at = self._monotonic() + _EVERY
            trouble = await self._write(None)
            if trouble is not None:
                raise trouble
            rest = _EVERY
        return rest if self._waiting else _IDLE

    async def before_settling(self, queue: str, settlements: Sequence[Settlement]) -> None:
        """Write what these jobs have told: once they have ended, the store would not take it."""
        if self._waiting or self._writing.locked():
            await self.flush({(queue, item.delivery.key) for item in settlements})

    async def flush(self, places: Collection[Place] | None = None) -> None:
        """Return when what these jobs have told is written, or all of it. Does not fail: it is
        called when a job or the worker ends, and they must."""
        if not self._waiting and not self._writing.locked():
            return
        try:
            trouble = await self._write(places)
        except Exception:
            log.exception("what jobs told of themselves is lost")
        else:
            if trouble is not None:
                log.warning("what jobs told of themselves cannot be written: %s", trouble)

    async def _write(self, places: Collection[Place] | None) -> StoreError | None:
        trouble: StoreError | None = None
        # One write at a time: lines must stay in order, and a job must not end before its last.
        async with self._writing:
            for queue, said in self._taken(places).items():
                try:
                    await self._store.report(queue, [self._report(*item) for item in said.items()])
                except StoreError as error:
                    # One queue's trouble must not hold back the others.
                    trouble = error
                    self._put_back(queue, said)
        return trouble

    def _report(self, key: JobKey, words: Words) -> Report:
        progress = b""
        if words.progress is not None:
            progress = encode_progress(Progress(*words.progress, self._now_ms()))
        return Report(key, progress, words.lines())

    # What waits; only with the lock

    def _words(self, place: Place) -> Words:
        if place not in self._waiting:
            self._waiting[place] = Words()
        return self._waiting[place]

    def _taken(self, places: Collection[Place] | None) -> dict[str, dict[JobKey, Words]]:
        taken: dict[str, dict[JobKey, Words]] = {}
        with self._lock:
            for place in [p for p in self._waiting if places is None or p in places]:
                words = self._waiting.pop(place)
                self._size -= words.size
                taken.setdefault(place[0], {})[place[1]] = words
        return taken

    def _put_back(self, queue: str, said: dict[JobKey, Words]) -> None:
        with self._lock:
            for key, earlier in said.items():
                now = self._words((queue, key))
                self._size -= now.size
                self._waiting[queue, key] = both = now.after(earlier)
                self._size += both.size
            self._limit()

    def _limit(self) -> None:
        while self._size > MOST_WAITING:
            oldest = next(words for words in self._waiting.values() if words.size)
            self._size -= oldest.size
            oldest.leave_out_oldest()
            self._size += oldest.size

    @contextlib.contextmanager
    def _waking(self) -> Iterator[None]:
        """Wake the service if there was nothing for it to do before."""
        was_idle = not self._waiting
        yield
        if not was_idle:
            return
        if threading.get_ident() == self._thread:
            self.wake()
            return
        # Closed if the worker ended while a thread of a job goes on: nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake)
