"""One task process, as its worker sees it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, assert_never

from headrace.client.context import RunReporter
from headrace.errors import ProcessDied
from headrace.worker.processes.environment import passed_on
from headrace.worker.processes.held_runs import HeldRuns, Preparation, Submission
from headrace.worker.processes.messages import (
    OnceReply,
    OnceRequest,
    ReportMessage,
    RunDone,
    RunReply,
    RunRequests,
    error_of,
)
from headrace.worker.processes.process_reporter import answer, pass_on
from headrace.worker.processes.worker_channel import Garbled, Message, WorkerChannel

# For an interpreter to start; then the process looks for its first run, and imports the app.
_STARTING = 60.0
# For a process that has nothing to do to clean up and end.
_LEAVING = 5.0


class ProcessOwner(Protocol):
    """What a process needs of its pool."""

    def end(
        self,
        submission: Submission,
        value: bytes | None,
        error: BaseException | None,
        busy: float = 0.0,
    ) -> None:
        """A run has ended. `busy` is for how long it kept its process busy, if that is known."""

    def freed(self) -> None:
        """Runs have ended, or have gone."""

    def refill(self, unbegun: Sequence[Submission] = ()) -> None:
        """There may be room; these have not begun, and go elsewhere."""

    def remove(self, process: TaskProcess) -> None:
        """The process is gone."""


class TaskProcess:
    """One child. It runs what it is given in order, one at a time. It leaves by itself when its end
    is closed, and dies with its parent. With `max_jobs`, it leaves after that many runs."""

    def __init__(self, owner: ProcessOwner, max_jobs: int | None = None) -> None:
        self._owner = owner
        self._left = max_jobs
        """How many more runs may end here."""
        self._leaving = False
        self._loop = asyncio.get_running_loop()
        self.runs = HeldRuns(self._send)
        try:
            ours, self._theirs = socket.socketpair()
            self._channel = WorkerChannel(ours, self._receive)
        except OSError:
            self.runs.close()
            raise
        self._process: asyncio.subprocess.Process | None = None
        self._trouble: BaseException | None = None
        self._killed = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.usable = True
        """Whether it may be given more."""
        self.can_start = False
        """Whether it has ended a run before."""
        self.reserved = False
        """Whether it is kept free for one run, which comes soon."""
        self.slow = False
        """Whether the run at hand takes longer than others should wait for."""
        self.gone = asyncio.Event()
        self._spawn(self._live())

    @property
    def open(self) -> bool:
        """Whether it may be given any run."""
        return self.usable and not self.reserved and not self.slow

    def room(self, most: int) -> int:
        """How many more runs it may be given, if it may have `most` at a time."""
        if self._left is not None:
            most = min(most, self._left)
        return max(most - len(self.runs), 0)

    def look(self) -> None:
        """Take what it has said, and start the clock of the run that has begun. A process that
        takes too long to prepare is ended."""
        self._channel.drain()
        self.runs.look()
        if self.runs.preparation is not None and not self._killed:
            self._check_preparation(self.runs.preparation)

    def _check_preparation(self, preparation: Preparation) -> None:
        now = time.monotonic()
        if preparation.is_long(now):
            preparation.report(now, self._process.pid if self._process else None)
        if preparation.is_too_long(now):
            self._trouble = ProcessDied(preparation.failure())
            self.kill()

    # What is said

    def _send(self, message: RunRequests | OnceReply) -> None:
        self._channel.send(message)

    def _receive(self, messages: Sequence[Message], garbled: Garbled | None) -> None:
        for message in messages:
            if isinstance(message, RunDone | RunReply):
                self._end(message)
            elif isinstance(message, ReportMessage):
                self._report(message)
            elif isinstance(message, OnceRequest):
                self._ask(message)
            else:
                assert_never(message)
        if garbled is not None:
            self._trouble = ProcessDied(f"{garbled}; it was killed")
        if garbled is not None or not (self.usable or self._leaving or self.runs):
            self.kill()
        elif self._left == 0 and self.usable:
            self.leave()
        self._owner.refill()
        self._owner.freed()

    def _end(self, message: RunDone | RunReply) -> None:
        self.can_start, self.slow = True, False
        submission = self.runs.end(message.number)
        if submission is None:
            return
        if self._left is not None:
            self._left -= 1
        run = submission.run
        run.started = message.started
        run.ended = message.started + message.took
        if isinstance(message, RunDone):
            self._owner.end(submission, message.value, None, message.busy)
        else:
            self._owner.end(submission, None, error_of(message), message.busy)

    def _report(self, message: ReportMessage) -> None:
        """Pass on what the run at hand reports."""
        if (head := self.runs.head) is not None:
            pass_on(message, head.run.reporter())

    def _ask(self, message: OnceRequest) -> None:
        """Answer what the run at hand asks."""
        if (head := self.runs.head) is not None:
            self._spawn(self._answer(message, head.run.reporter()))
        else:
            self._send(OnceReply(trouble="the job has ended"))

    async def _answer(self, message: OnceRequest, reporter: RunReporter) -> None:
        reply = await answer(message, reporter)
        if not self.gone.is_set():
            self._send(reply)

    # Its life

    def leave(self) -> None:
        """Have a process that has nothing to do clean up and end; it is killed if it takes too
        long."""
        self.usable, self._leaving = False, True
        self.runs.end_all()
        self._set_timer(_LEAVING, self.kill)

    def terminate(self) -> None:
        """Have the function at hand end at once, with its `finally` blocks; what has not begun goes
        elsewhere, and the process leaves."""
        self._dismiss()
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the function at hand without any grace; what has not begun goes elsewhere."""
        self._dismiss()
        self._kill_with_all()

    def _kill_with_all(self) -> None:
        """Kill it with what it has not begun."""
        self.usable, self._killed = False, True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _dismiss(self) -> None:
        self.usable = False
        self._owner.refill(self.runs.take_back())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name="headrace-task-process")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self) -> None:
        """Start it, and wait for its end."""
        try:
            self._process = await self._start()
            code = await self._end_of(self._process)
        except (Exception, asyncio.CancelledError) as error:
            self._bury(error)
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self._bury(ProcessDied(f"the process that ran the job {how}"))

    async def _end_of(self, process: asyncio.subprocess.Process) -> int:
        """Its exit code. A cancellation only ends this wait, never the process: `asyncio.run`
        cancels all tasks at its end, but the worker still has what runs cleaned up and handed
        back, and waits until the process is gone."""
        while True:
            try:
                return await process.wait()
            except asyncio.CancelledError:
                continue

    async def _start(self) -> asyncio.subprocess.Process:
        runs, bell = self.runs, self._channel.bell
        try:
            ends = (self._theirs.fileno(), runs.tokens.reader, runs.mark.descriptor, bell.writer)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "headrace.worker.processes.child",
                str(os.getpid()),
                *map(str, ends),
                pass_fds=ends,
                env={**passed_on(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # A Ctrl-C in the terminal is for the worker, which ends its processes.
                start_new_session=True,
            )
        finally:
            self._theirs.close()
            bell.give_away()
        if self._killed:
            process.kill()
        if self._timer is None:
            self._set_timer(_STARTING, self._check_start)
        return process

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then)

    def _check_start(self) -> None:
        """End a process that hangs before it looks for a run."""
        if self.runs and not self.can_start and not self.runs.has_begun:
            said = f"the process for the job did not start within {_STARTING:g} s, and was killed"
            self._trouble = ProcessDied(said)
            # Its first run ends too, see `_bury`: a new process for it may hang as well.
            self._kill_with_all()

    def _bury(self, trouble: BaseException) -> None:
        """End its runs, or let them go elsewhere: never both. The kernel knows which ones had
        begun. If the process could not even start, its first run ends too, or it would be tried for
        ever."""
        self.usable = False
        self._channel.drain()
        # The run that it died in has begun: that is known only from here.
        self.runs.look()
        could_start = self.can_start or self.runs.has_begun
        unbegun = self.runs.take_back()
        if unbegun and not could_start:
            self.runs.put_back([unbegun.pop(0)])
        for submission in tuple(self.runs):
            self.runs.let_go(submission)
            self._owner.end(submission, None, self._trouble or trouble)
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()
        self.runs.close()
        self.gone.set()
        self._owner.remove(self)
        self._owner.refill(unbegun)
        self._owner.freed()
