"""The runs that a task process has: the one that it runs, and those that it has not begun."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence

from headrace.worker.processes.messages import RunRequests, request
from headrace.worker.processes.start_tokens import EntryMark, StartTokens, after
from headrace.worker.run.run import Run

log = logging.getLogger("headrace.worker")

# More than this waits in the worker: what is taken back stays in the process for a while.
_MOST_BYTES_AHEAD = 1 << 18
# Seconds by which a job's own timeout is later than that of a preparation, which says more.
_AFTER_PREPARATION = 5.0

Done = Callable[[Run, bytes | None, BaseException | None], None]
"""Called once when a run has ended: with its encoded result, or with its error."""


class Submission:
    """A run on its way through a process."""

    __slots__ = ("done", "holder", "number", "run", "sent", "size")

    def __init__(self, run: Run, done: Done) -> None:
        self.run = run
        self.done = done
        self.size = len(run.payload)
        self.holder: HeldRuns | None = None
        self.number = 0
        self.sent = False


class Preparation:
    """What a process does before it enters the function of the run `number`: an import of the app,
    or a set-up, seen first at `since`. It may take `timeout` seconds."""

    def __init__(self, run: Run, number: int, *, in_set_up: bool, since: float) -> None:
        self._run = run
        self._number = number
        self._in_set_up = in_set_up
        self._reported = False
        self._since = since
        self.timeout = run.settings.process_start_timeout
        self._fields: dict[str, object] = {}
        self._name = f"the import of {run.task.function.__module__}"
        lifespan = run.task.app.process_lifespan_declared
        if in_set_up and lifespan is not None:
            self.timeout = lifespan.timeout
            self._name = f"the set-up by @app.process_lifespan, {lifespan.name},"
            self._fields["process_lifespan"] = lifespan.name

    def is_same(self, number: int, *, in_set_up: bool) -> bool:
        return self._number == number and self._in_set_up == in_set_up

    def is_long(self, now: float) -> bool:
        """Whether people should hear of it: half of its time is over."""
        return now - self._since >= self.timeout / 2

    def is_too_long(self, now: float) -> bool:
        return now - self._since >= self.timeout

    def report(self, now: float, pid: int | None) -> None:
        """Log, once, that it takes long."""
        if self._reported:
            return
        self._reported = True
        run = self._run
        log.warning(
            "%s has not ended after %.1f s in process %s, for job %s (%s); after %g s the process "
            "is killed, and the attempt fails",
            *(self._name, now - self._since, pid),
            *(run.delivery.id_text, run.task.name, self.timeout),
            extra={**run.fields, **self._fields, "pid": pid, "timeout": self.timeout},
        )

    def failure(self) -> str:
        return (
            f"{self._name} did not end within {self.timeout:g} s, so the process for the job was "
            "killed; @app.process_lifespan(timeout=…) gives it more time"
        )


class HeldRuns:
    """What a process was given and has not ended, in order. `send` sends it requests."""

    def __init__(self, send: Callable[[RunRequests], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self.mark = EntryMark()
        try:
            self.tokens = StartTokens()
        except OSError:
            self.mark.close()
            raise
        self._number = 0
        self._held: dict[int, Submission] = {}
        self._unsent: list[Submission] = []
        self._bytes = 0
        self.preparation: Preparation | None = None
        """What the process was seen to do before it enters the function of the run at hand."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Submission]:
        return iter(self._held.values())

    @property
    def head(self) -> Submission | None:
        """The run at hand, if the process has begun any."""
        return next(iter(self._held.values()), None)

    @property
    def has_begun(self) -> bool:
        """Whether the process has begun one of them."""
        return self.tokens.left() + len(self._unsent) < len(self._held)

    def has_room_for(self, submission: Submission) -> bool:
        return not self._held or self._bytes + submission.size <= _MOST_BYTES_AHEAD

    def give(self, submission: Submission) -> None:
        """Let the process run this after all that it has."""
        self._number = submission.number = after(self._number)
        submission.sent = False
        self._hold(submission)
        if not self._unsent:
            # All that it is given in this turn of the loop goes in one message.
            self._loop.call_soon(self._send_all)
        self._unsent.append(submission)

    def end(self, number: int) -> Submission | None:
        """The run with this number, which has ended."""
        submission = self._held.get(number)
        if submission is not None:
            self.let_go(submission)
        return submission

    def take_back(self) -> list[Submission]:
        """All that has not begun, and now will not; in order."""
        unbegun = [self._held[number] for number in self.tokens.take_back()]
        unbegun += self._unsent
        self._unsent = []
        for submission in unbegun:
            self.let_go(submission)
        return unbegun

    def put_back(self, submissions: Sequence[Submission]) -> None:
        """Let the process run these after all, which it had before `take_back`."""
        for submission in submissions:
            self._hold(submission)
        self.tokens.put([one.number for one in submissions if one.sent])
        self._unsent += [one for one in submissions if not one.sent]

    def withdraw(self, submission: Submission) -> bool:
        """Whether this has not begun, and now will not."""
        unbegun = self.take_back()
        self.put_back([one for one in unbegun if one is not submission])
        return submission in unbegun

    def look(self) -> None:
        """Start the clock of the run that has begun, if that can be seen now. An import of the app
        is not the function's time."""
        head = self.head
        if head is None:
            self.preparation = None
            return
        number, at = self.mark.read()
        if number == head.number:
            self.preparation = None
            if head.run.started != at:
                head.run.start_clock_at(at)
        elif self.has_begun:
            self._note_preparation(head)

    def _note_preparation(self, head: Submission) -> None:
        in_set_up = self.mark.had_set_up(head.number)
        known = self.preparation
        if known is None or not known.is_same(head.number, in_set_up=in_set_up):
            now = time.monotonic()
            self.preparation = Preparation(head.run, head.number, in_set_up=in_set_up, since=now)
            head.run.start_clock_at(now, self.preparation.timeout + _AFTER_PREPARATION)

    def taken(self, now: float) -> float:
        """Seconds since the run at hand was seen to begin; 0 if none was."""
        head = self.head
        if head is None or not head.run.started or not self.has_begun:
            # Middleware may have begun it, but it waits for the process.
            return 0.0
        return now - head.run.started

    def let_go(self, submission: Submission) -> None:
        del self._held[submission.number]
        self._bytes -= submission.size
        submission.holder = submission.run.process = None

    def end_all(self) -> None:
        """Let the process leave when it looks for the next run: it gets no more."""
        self.tokens.end()

    def close(self) -> None:
        self._unsent = []
        self.tokens.close()
        self.mark.close()

    def _hold(self, submission: Submission) -> None:
        self._held[submission.number] = submission
        self._bytes += submission.size
        submission.holder = submission.run.process = self

    def _send_all(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._send(RunRequests([request(one.run, one.number) for one in unsent]))
            for one in unsent:
                one.sent = True
            self.tokens.put([one.number for one in unsent])
