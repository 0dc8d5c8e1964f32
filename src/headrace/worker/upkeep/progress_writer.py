"""Writes the progress and logs of running jobs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from headrace.core.bounds import LOG_LINES
from headrace.core.job.ids import JobId
from headrace.core.job.progress import Progress, encode_progress
from headrace.errors import StoreError
from headrace.store.contract import Settlement, Store
from headrace.store.values import Report
from headrace.worker.logs.store_outage import level_of
from headrace.worker.service import Service

log = logging.getLogger("headrace.worker")

_EVERY = 0.25
_IDLE = 3600.0
# Characters of lines that wait in all: a store that is away must not fill the memory.
MOST_WAITING = 16 * 1024 * 1024

Place = tuple[str, JobId]
"""A queue and a job of it."""


class ReportBuffer:
    """What one job reported and is not written yet: the latest progress, and lines in order. Of too
    many lines the oldest are left out, and the first one kept says how many."""

    __slots__ = ("_left_out", "_lines", "_most", "progress", "size")

    def __init__(self, most: int = LOG_LINES) -> None:
        self._most = most
        self.progress: tuple[float, str] | None = None
        self.size = 0
        """Characters in all lines."""
        self._lines: deque[str] = deque()
        self._left_out = 0

    def __bool__(self) -> bool:
        return self.progress is not None or bool(self._lines) or self._left_out > 0

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._lines.append(line)
            self.size += len(line)
            if len(self._lines) > self._most:
                self.leave_out_oldest()

    def leave_out_oldest(self) -> None:
        self._left_out += 1
        self.size -= len(self._lines.popleft())

    def lines(self) -> tuple[str, ...]:
        if not self._left_out:
            return tuple(self._lines)
        # In place of the oldest one: the store keeps no more lines than these.
        rest = tuple(self._lines)[1:]
        left_out = self._left_out + min(len(self._lines), 1)
        return f"({left_out:,} lines were left out here)", *rest

    def after(self, earlier: ReportBuffer) -> ReportBuffer:
        """This behind an earlier one, which could not be written."""
        both = ReportBuffer(self._most)
        both.progress = earlier.progress if self.progress is None else self.progress
        both._left_out = earlier._left_out + self._left_out
        both.add(earlier._lines)
        both.add(self._lines)
        return both


class ProgressWriter(Service):
    """Gathers what all runs report, from any thread. Writes at once if nothing was written in the
    last quarter of a second, else everything together when that is over. Jobs never wait for it."""

    name = "progress writer"

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
        self._waiting: dict[Place, ReportBuffer] = {}
        self._size = 0
        self._writing = asyncio.Lock()

    # Called by runs

    def progress(self, place: Place, fraction: float, text: str) -> None:
        with self._lock, self._waking():
            self._buffer(place).progress = fraction, text

    def log(self, place: Place, lines: Iterable[str]) -> None:
        with self._lock, self._waking():
            buffer = self._buffer(place)
            self._size -= buffer.size
            buffer.add(lines)
            self._size += buffer.size
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
        """Write what these jobs reported: once they have ended, the store would not take it."""
        if self._waiting or self._writing.locked():
            await self.flush({(queue, item.delivery.job_id) for item in settlements})

    async def flush(self, places: Collection[Place] | None = None) -> None:
        """Return when what these jobs reported is written, or what all did. Does not fail: it is
        called when a job or the worker ends, and they must."""
        if not self._waiting and not self._writing.locked():
            return
        try:
            trouble = await self._write(places)
        except Exception:
            log.exception("progress and logs of jobs are lost", extra={"service": self.name})
        else:
            if trouble is not None:
                what = "progress and logs of jobs cannot be written: %s"
                log.log(level_of(trouble), what, trouble, extra={"error": str(trouble)})

    async def _write(self, places: Collection[Place] | None) -> StoreError | None:
        trouble: StoreError | None = None
        # One write at a time: lines must stay in order, and a job must not end before its last.
        async with self._writing:
            for queue, buffers in self._taken(places).items():
                try:
                    await self._store.report(
                        queue, [self._report(*item) for item in buffers.items()]
                    )
                except StoreError as error:
                    # One queue's trouble must not hold back the others.
                    trouble = error
                    self._put_back(queue, buffers)
        return trouble

    def _report(self, job_id: JobId, buffer: ReportBuffer) -> Report:
        progress = b""
        if buffer.progress is not None:
            progress = encode_progress(Progress(*buffer.progress, self._now_ms()))
        return Report(job_id, progress, buffer.lines())

    # What waits; only with the lock

    def _buffer(self, place: Place) -> ReportBuffer:
        if place not in self._waiting:
            most = self._store.history_rules.queues.of(place[0]).log
            self._waiting[place] = ReportBuffer(most)
        return self._waiting[place]

    def _taken(self, places: Collection[Place] | None) -> dict[str, dict[JobId, ReportBuffer]]:
        taken: dict[str, dict[JobId, ReportBuffer]] = {}
        with self._lock:
            for place in [p for p in self._waiting if places is None or p in places]:
                buffer = self._waiting.pop(place)
                self._size -= buffer.size
                taken.setdefault(place[0], {})[place[1]] = buffer
        return taken

    def _put_back(self, queue: str, buffers: dict[JobId, ReportBuffer]) -> None:
        with self._lock:
            for key, earlier in buffers.items():
                now = self._buffer((queue, key))
                self._size -= now.size
                self._waiting[queue, key] = both = now.after(earlier)
                self._size += both.size
            self._limit()

    def _limit(self) -> None:
        while self._size > MOST_WAITING:
            oldest = next(buffer for buffer in self._waiting.values() if buffer.size)
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
        # The loop is closed if the worker ended while a thread of a job goes on.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake)
