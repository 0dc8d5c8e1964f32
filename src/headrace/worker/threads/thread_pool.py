"""Threads that take call after call from one queue, and a loop that takes many ends at once."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from headrace.worker.run.look_ahead import AHEAD, LookAhead

# A thread that finds nothing to do stays this long, to save the start of another.
_LINGER = 0.05
# While calls wait for threads, the loop looks this often for those that have ended. No more threads
# are woken than the calls at hand keep busy for this long: for short ones, the more the slower.
_LOOK = 0.001
# It looks less often while many wait: each time it takes the interpreter from the threads.
_LOOK_LATEST = 0.005


class ThreadCall(ABC):
    """One turn of a thread."""

    __slots__ = ()

    @abstractmethod
    def perform(self) -> None:
        """Called in the thread; must not raise."""

    @abstractmethod
    def ended(self, at: float) -> None:
        """Called on the loop afterwards, with when that was; must not raise."""


class ThreadPool:
    """Runs calls in the order in which they come. Handing one over takes no asyncio task, and the
    loop is woken once for all calls that ended since it last looked.

    A call belongs to the one that takes it out of `_waiting`: a thread, which performs it, or
    `withdraw`. Threads are *seated* while they serve, and *parked* while they find nothing to do;
    `_lock` guards who is where, and what has ended."""

    def __init__(
        self, threads: int, executor: Executor | None = None, linger: float = _LINGER
    ) -> None:
        self._threads = threads
        self._linger = linger
        # Threads that serve leave when there is nothing to do, so that none keeps the interpreter
        # from ending.
        self._executor = executor or ThreadPoolExecutor(threads, "headrace-task")
        self._loop = asyncio.get_running_loop()
        self._queue: deque[ThreadCall] = deque()
        self._waiting: dict[object, None] = {}
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
        self._ended: list[tuple[ThreadCall, float, float]] = []
        self._woken = False
        self._pace = 0.0
        """What a call takes, on average. Not that of `_look_ahead`: one call that is long, or was
        kept from the interpreter, does not make the next ones so."""

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
        # If others wait before it, a thread is awake.
        if len(self._queue) == 1:
            self._wake(1)
        if not self._looking:
            # More may come with it.
            self._looking = True
            self._loop.call_soon(self._spread)

    def collect(self) -> None:
        """End the calls that threads are done with, without waiting to be woken for them."""
        if self._ended:
            self._take_ended()

    def withdraw(self, call: object) -> bool:
        """Take back a call that no thread has begun; False if it is too late."""
        if self._waiting.pop(call, call) is call:
            return False
        self._held -= 1
        return True

    def close(self) -> None:
        """Begin nothing more. Threads end with the calls that they are in."""
        self._waiting.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _wake(self, count: int) -> None:
        """Have this many threads take calls, if there are as many."""
        with self._lock:
            missing = count - (self._threads - len(self._seats) - len(self._parked))
            if missing <= 0:
                return
            parked = self._parked[-missing:]
            del self._parked[-missing:]
            new = self._seats[: missing - len(parked)]
            del self._seats[: len(new)]
        for seat in parked:
            self._wakes[seat].release()
        for seat in new:
            self._executor.submit(self._serve, seat)

    # In the threads

    def _serve(self, seat: int) -> None:
        queue, claim, began, lock = self._queue, self._waiting.pop, self._began, self._lock
        while True:
            try:
                call = queue.popleft()
            except IndexError:
                if (first := self._next(seat)) is None:
                    return
                call = first
            if claim(call, call) is call:
                # It was withdrawn.
                continue
            began[seat] = start = time.monotonic()
            call.perform()
            end = time.monotonic()
            began[seat] = 0.0
            with lock:
                self._ended.append((call, start, end))
                if self._woken or (self._looking and queue):
                    continue
                self._woken = True
            self._wake_loop()

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
            if self._wakes[seat].acquire(timeout=self._linger):
                continue
            with self._lock:
                if seat in self._parked:
                    self._parked.remove(seat)
                    self._seats.append(seat)
                    return None
            # Woken at the last moment.
            self._wakes[seat].acquire()

    def _wake_loop(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._take_ended)
        except RuntimeError:
            # The loop is closed: the worker has given its calls up.
            return

    # On the loop again

    def _look(self) -> None:
        self._take_ended()
        self._spread()

    def _spread(self) -> None:
        """Wake as many threads as the calls that wait keep busy until the next look."""
        waiting = len(self._queue)
        if not waiting:
            with self._lock:
                self._looking = False
            # Threads did not wake the loop for those that ended before.
            self._take_ended()
            return
        stuck = self._stuck()
        # Twice as many each time, if they take longer than was thought.
        self._wake(stuck + min(waiting, stuck + 1 + int(waiting * self._pace / _LOOK)))
        half = waiting * self._pace / self._threads / 2
        self._loop.call_later(min(max(half, _LOOK), _LOOK_LATEST), self._look)

    def _stuck(self) -> int:
        """How many threads are in a call that takes longer than until the next look."""
        before = time.monotonic() - _LOOK
        return sum(1 for began in self._began if 0.0 < began < before)

    def _take_ended(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
            self._woken = False
        if not ended:
            return
        self._held -= len(ended)
        for call, _, at in ended:
            call.ended(at)
        took = [at - began for _, began, at in ended]
        self._look_ahead.note(*took)
        self._pace += (sum(took) / len(took) - self._pace) / 2
        for freed in tuple(self._freed):
            freed()
