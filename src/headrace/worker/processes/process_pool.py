"""Divides runs among task processes."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from headrace.worker.processes.held_runs import Done, Submission
from headrace.worker.processes.task_process import TaskProcess
from headrace.worker.run.look_ahead import AHEAD, LookAhead
from headrace.worker.run.run import Run

# Seconds between looks at which runs have begun. Short ones say so when they end.
_LOOK = 0.025
# A process needs no more ahead: they are brought by the dozen.
_MOST_AHEAD = 128

_Reservation = asyncio.Future[TaskProcess]


class ProcessPool:
    """Up to `most` processes, started when needed and used again. Each has one run and, while runs
    are short, some more that begin soon. `submit` does not wait, and calls back: a run needs no
    asyncio task of its own. A process is replaced after `max_jobs` runs. With `lets_leave`,
    processes with nothing to do may clean up when the pool is closed."""

    def __init__(
        self,
        most: int,
        look_ahead: LookAhead | None = None,
        slow_after: float = AHEAD,
        *,
        max_jobs: int | None = None,
        lets_leave: bool = False,
    ) -> None:
        self._most = most
        self._max_jobs = max_jobs
        self._lets_leave = lets_leave
        self._slow_after = slow_after
        self._loop = asyncio.get_running_loop()
        self._processes: list[TaskProcess] = []
        self._waiting: deque[Submission | _Reservation] = deque()
        """What no process has room for, in order."""
        self._submissions: dict[Run, Submission] = {}
        self._look_ahead = look_ahead or LookAhead()
        self._freed: list[Callable[[], None]] = []
        self._looking = False
        self._closed = False

    # For the worker

    @property
    def free(self) -> int:
        """How many runs can begin at once."""
        busy = sum(1 for one in self._processes if len(one.runs) or one.reserved or not one.usable)
        return max(self._most - busy - len(self._waiting), 0)

    def capacity(self) -> int:
        """How many more runs would begin at once, or within the time to look ahead."""
        places = self._places()
        free = self._most - len(self._processes) - len(self._waiting)
        for process in self._processes:
            if process.open:
                free += process.room(places if process.can_start else 1)
        return max(free, 0)

    def when_freed(self, freed: Callable[[], None]) -> None:
        """Call `freed` each time that runs have ended, or have gone."""
        self._freed.append(freed)

    def forget(self, freed: Callable[[], None]) -> None:
        self._freed.remove(freed)

    def submit(self, run: Run, done: Done, process: TaskProcess | None = None) -> None:
        """Have it run by the process that has least to do, or by the one that is reserved for it.
        `done` is called once, unless the run is withdrawn."""
        submission = self._submissions[run] = Submission(run, done)
        if process is not None and process.usable:
            process.runs.give(submission)
            self._watch()
        else:
            self._waiting.append(submission)
            self.refill()

    def __contains__(self, run: Run) -> bool:
        """Whether it was submitted, and has neither ended nor been withdrawn."""
        return run in self._submissions

    def is_behind(self, run: Run) -> bool:
        """Whether it waits for another to end; not so while its process starts."""
        submission = self._submissions.get(run)
        if submission is None:
            return False
        return submission.holder is None or submission.holder.head is not submission

    def withdraw(self, run: Run) -> bool:
        """Whether the run has not begun, and now will not: its `done` is not called. False if it
        has begun, or has ended."""
        submission = self._submissions.get(run)
        if submission is None:
            return False
        if submission.holder is None:
            self._waiting.remove(submission)
        elif not submission.holder.withdraw(submission):
            return False
        del self._submissions[run]
        self.refill()
        return True

    def terminate(self, run: Run) -> None:
        """Have a run that has begun end at once, with its `finally` blocks."""
        if (process := self._process_of(run)) is not None:
            process.terminate()

    def kill(self, run: Run) -> asyncio.Event | None:
        """Kill the process of a run that has begun. Set when it is gone; None if the run has ended
        before."""
        process = self._process_of(run)
        if process is None:
            return None
        process.kill()
        return process.gone

    @asynccontextmanager
    async def reserved(self) -> AsyncIterator[TaskProcess]:
        """A process that is free, for one run that begins at once."""
        reservation: _Reservation = self._loop.create_future()
        self._waiting.append(reservation)
        self.refill()
        try:
            yield await reservation
        finally:
            if reservation in self._waiting:
                self._waiting.remove(reservation)
            elif not reservation.cancelled() and reservation.exception() is None:
                reservation.result().reserved = False
            self.refill()

    async def close(self) -> None:
        """End all processes; nothing that they ran ends any more."""
        self._closed = True
        ending = tuple(self._processes)
        for process in ending:
            if self._lets_leave and not process.runs:
                process.leave()
            else:
                process.kill()
        for process in ending:
            await process.gone.wait()

    # For the processes

    def end(
        self,
        submission: Submission,
        value: bytes | None,
        error: BaseException | None,
        busy: float = 0.0,
    ) -> None:
        if busy:
            self._look_ahead.note(busy)
        self._submissions.pop(submission.run, None)
        if not self._closed:
            submission.done(submission.run, value, error)

    def remove(self, process: TaskProcess) -> None:
        self._processes.remove(process)

    def freed(self) -> None:
        for freed in tuple(self._freed):
            freed()

    def refill(self, unbegun: Sequence[Submission] = ()) -> None:
        """Give out what waits, beginning with `unbegun`, to processes that have room."""
        waiting = self._waiting
        waiting.extendleft(reversed(unbegun))
        if self._closed:
            return
        while waiting and self._place(waiting[0]):
            waiting.popleft()
        if not waiting:
            self._balance()
        self._watch()

    def _place(self, first: Submission | _Reservation) -> bool:
        """Whether it needs to wait no longer."""
        try:
            process = self._place_for(first)
        except OSError as error:
            # No process can be started: that is for the run to say.
            if isinstance(first, Submission):
                self.end(first, None, error)
            else:
                first.set_exception(error)
            return True
        if process is None:
            return False
        if isinstance(first, Submission):
            process.runs.give(first)
        else:
            process.reserved = True
            first.set_result(process)
        return True

    def _place_for(self, first: Submission | _Reservation) -> TaskProcess | None:
        """The process with least to do, if it has room."""
        best, least = None, (places := self._places())
        for process in self._processes:
            load = len(process.runs)
            # Nothing waits for a process to start, or to import the app, but its first run.
            is_ready = process.open and (process.can_start or not load)
            if load < least and is_ready and process.room(places):
                best, least = process, load
        if best is not None and not least:
            return best
        if len(self._processes) < self._most:
            process = TaskProcess(self, self._max_jobs)
            self._processes.append(process)
            return process
        if best is None or not isinstance(first, Submission) or not best.runs.has_room_for(first):
            return None
        return best

    def _places(self) -> int:
        """How many runs a process may have."""
        return 1 + min(self._look_ahead.count(1), _MOST_AHEAD)

    def _process_of(self, run: Run) -> TaskProcess | None:
        submission = self._submissions.get(run)
        holder = None if submission is None else submission.holder
        return next((one for one in self._processes if one.runs is holder), None)

    def _balance(self) -> None:
        """Let a process that has nothing to do take over half of what has not begun elsewhere."""
        for idle in self._processes:
            if not idle.runs and idle.can_start and idle.open:
                busiest = max(self._processes, key=_movable)
                if not _movable(busiest):
                    return
                unbegun = busiest.runs.take_back()
                half = min((len(unbegun) + 1) // 2, idle.room(len(unbegun)))
                busiest.runs.put_back(unbegun[half:])
                for submission in unbegun[:half]:
                    idle.runs.give(submission)

    def _watch(self) -> None:
        if not self._looking and self._submissions:
            self._looking = True
            self._loop.call_later(_LOOK, self._look)

    def _look(self) -> None:
        """Start the clocks of runs that go on, and take results that came right before them. What
        waits behind a long run waits here instead, for any process."""
        self._looking = False
        now = time.monotonic()
        behind: list[Submission] = []
        for process in tuple(self._processes):
            process.look()
            if not process.slow and process.runs.taken(now) > self._slow_after:
                process.slow = True
                behind += process.runs.take_back()
        self.refill(behind)


def _movable(process: TaskProcess) -> int:
    """How many runs it has that another process may begin before it does."""
    return len(process.runs) - 1 if process.can_start else len(process.runs)
