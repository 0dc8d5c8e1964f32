"""Threads that take call after call from one queue, and a loop that takes many ends at once."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from headrace.worker.run.look_ahead import AHEAD, LookAhead

# A thread that finds nothing to do stays this long, to save the start of another.
_LINGER = 0.05
# While calls wait for threads, the loop looks this often for those that have ended. No more threads
# are woken than the calls at hand keep busy for this long: for short ones, the more the slower.
_LOOK = 0.001


class ThreadCall(ABC):
    """One turn of a thread."""

    __slots__ = ()

    @abstractmethod
    def perform(self) -> None:
        """Called in the thread; must not raise."""

    @abstractmethod
    def ended(self) -> None:
        """Called on the loop afterwards; must not raise."""


class ThreadPool:
    """Runs calls in the order in which they come. Handing one over takes no asyncio task, and the
    loop is woken once for all calls that ended since it last looked.

    A call belongs to the one that takes it out of `_waiting`: a thread, which performs it, or
    `withdraw`. Threads are *seated* while they serve, and *parked* while they find nothing to do;
    `_lock` guards who is where, and what has ended."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        # Threads that serve leave when there is nothing to do, so that none keeps the interpreter
        # from ending.
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="headrace-task")
        self._loop = asyncio.get_running_loop()
        self._queue: deque[ThreadCall] = deque()
        self._waiting: dict[ThreadCall, None] = {}
        self._held = 0
        self._look_ahead = LookAhead()
        self._freed: list[Callable[[], None]] = []
        self._looking = False
        self._lock = threading.Lock()
        self._seats = list(range(threads))
        """Those that are free."""
        self._parked: list[int] = []
        self._wakes = [threading.Lock() for _ in range(threads)]
        """Released to wake the thread with this seat."""
        for wake in self._wakes:
            wake.acquire()
        self._began = [0.0] * threads
        """When the call began that the thread with this seat performs; 0 if none."""
        self._ended: list[tuple[ThreadCall, float]] = []
        self._woken = False

    def capacity(self) -> int:
        """How many more calls would begin at once, or within the time to look ahead."""
        return max(0, self._threads + self.ahead() - self._held)

    def ahead(self) -> int:
        """How many calls may wait for a thread. A thread whose call takes long does not count."""
        latest = time.monotonic() - AHEAD
        moving = sum(1 for began in self._began if not 0.0 < began < latest)
        return self._look_ahead.count(moving)

    def when_freed(self, freed: Callable[[], None]) -> None:
        """Call `freed` on the loop each time that calls have ended."""
        self._freed.append(freed)

    def forget(self, freed: Callable[[], None]) -> None:
        self._freed.remove(freed)

    def submit(self, call: ThreadCall) -> None:
        self._held += 1
        self._waiting[call] = None
        self._queue.append(call)
        if self._held * self._look_ahead.seconds > _LOOK:
            awake = self._wake_one(self._threads)
        else:
            # If others wait before it, a thread is awake.
            awake = len(self._queue) == 1 and self._wake_one(1)
        if not awake and not self._looking:
            self._look_soon()

    def collect(self) -> None:
        """End the calls that threads are done with, without waiting to be woken for them."""
        if self._ended:
            self._take_ended()

    def withdraw(self, call: ThreadCall) -> bool:
        """Take back a call that no thread has begun; False if it is too late."""
        if self._waiting.pop(call, call) is call:
            return False
        self._held -= 1
        return True

    def close(self) -> None:
        """Begin nothing more. Threads end with the calls that they are in."""
        self._waiting.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _wake_one(self, most: int) -> bool:
        """Let one more thread take calls, unless `most` do so already."""
        with self._lock:
            if self._threads - len(self._seats) - len(self._parked) >= most:
                return False
            seat = self._seats.pop() if not self._parked else -1
            parked = self._parked.pop() if seat < 0 else -1
        if seat >= 0:
            self._executor.submit(self._serve, seat)
        else:
            self._wakes[parked].release()
        return True

    # In the threads

    def _serve(self, seat: int) -> None:
        while (call := self._next(seat)) is not None:
            if self._waiting.pop(call, call) is not call:
                self._began[seat] = began = time.monotonic()
                call.perform()
                self._began[seat] = 0.0
                self._post(call, time.monotonic() - began)

    def _next(self, seat: int) -> ThreadCall | None:
        """The next call, once there is one; None if the thread has left its seat."""
        while True:
            try:
                return self._queue.popleft()
            except IndexError:
                with self._lock:
                    # Under the lock: `submit` sees this thread parked, or this sees its call.
                    if self._queue:
                        continue
                    self._parked.append(seat)
            if self._wakes[seat].acquire(timeout=_LINGER):
                continue
            with self._lock:
                if seat in self._parked:
                    self._parked.remove(seat)
                    self._seats.append(seat)
                    return None
            # Woken at the last moment.
            self._wakes[seat].acquire()

    def _post(self, call: ThreadCall, took: float) -> None:
        with self._lock:
            self._ended.append((call, took))
            if self._woken or (self._looking and self._queue):
                return
            self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._take_ended)
        except RuntimeError:
            # The loop is closed: the worker has given this call up.
            return

    # On the loop again

    def _look_soon(self) -> None:
        self._looking = True
        self._loop.call_later(_LOOK, self._look)

    def _look(self) -> None:
        with self._lock:
            self._looking = False
        self._take_ended()
        if self._queue:
            # They take longer than was thought.
            while self._wake_one(self._threads):
                pass
            self._look_soon()

    def _take_ended(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
            self._woken = False
        self._held -= len(ended)
        note = self._look_ahead.note
        for call, took in ended:
            note(took)
            call.ended()
        if ended:
            for freed in tuple(self._freed):
                freed()


class ThreadPlace(ThreadCall):
    """A thread that is reserved while the loop decides what to run in it; `async with` waits until
    it is there."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._granted: asyncio.Future[None] = self._loop.create_future()
        self._orders: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None]
        self._orders = SimpleQueue()

    async def __aenter__(self) -> ThreadPlace:
        self._pool.submit(self)
        try:
            await self._granted
        except BaseException:
            if not self._pool.withdraw(self):
                self._orders.put(None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._orders.put(None)

    def call(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """What `work`, which must not raise, returns in the thread."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._orders.put((work, future))
        return future

    def perform(self) -> None:
        if not self._soon(_grant, self._granted):
            return
        while order := self._orders.get():
            work, future = order
            if not self._soon(_resolve, future, work()):
                return

    def _soon(self, callback: Callable[..., None], *arguments: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return False
        return True

    def ended(self) -> None:
        """Nothing is left to do: the answers have been given before."""


def _grant(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
