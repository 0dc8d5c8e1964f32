"""Where the runs of a worker are: in a batch that fills, in line for a slot, or under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from headrace.worker.run.batcher import Batcher
from headrace.worker.run.run import BatchRun, Run
from headrace.worker.run.slots import Slots
from headrace.worker.run.trampoline import Trampoline, Work


class InFlight:
    """Gives runs their slots. Each run that comes has one, which the reader took for it.

    Where deliveries keep the reader's slots until they are settled (`in_flight`), this has
    slots of its own without number, and looks only after runs that outlast their outcome."""

    def __init__(
        self, slots: Slots, begin: Callable[[Run], Work], in_flight: Slots | None = None
    ) -> None:
        self._slots = slots
        self._begin = begin
        self._trampoline = Trampoline(self._begun)
        self._in_flight = in_flight
        self._outlasting: dict[Run, int] = {}
        self._in_line: deque[Run] = deque()
        self._batcher = Batcher(slots, self.enter)
        self.running: set[Run] = set()
        self.late: set[asyncio.Task[None]] = set()
        """What has to end, too, before all outcomes are known."""

    def gather(self, run: Run) -> None:
        """Have a job join a batch; as long as that fills, it needs no slot."""
        if not self._batcher.add(run):
            # Not `give`: the reader, which it would wake, is the one who brings the job.
            self._slots.free += 1
            if self._in_line:
                self._let_in()

    def enter(self, run: Run) -> None:
        if self._slots.free < 0:
            # More came than there are slots for: a batch was hoped for. First come, first served.
            self._in_line.append(run)
            self._let_in()
        else:
            self._trampoline.add(run)

    @property
    def serving(self) -> set[asyncio.Task[None]]:
        """What will have those begin that have their slots."""
        return self._trampoline.serving

    def flush(self) -> None:
        """Have the batches that fill begin."""
        self._batcher.flush()

    def outlast(self, run: Run) -> None:
        """The run has its outcome, but its function goes on: it needs its place until it ends."""
        if self._in_flight is not None and run in self.running and run not in self._outlasting:
            self._outlasting[run] = len(run.members)
            self._in_flight.take(len(run.members))

    def leave(self, run: Run) -> None:
        self.running.discard(run)
        if self._outlasting and self._in_flight is not None:
            self._in_flight.give_back(self._outlasting.pop(run, 0))
        self._slots.give()
        if self._in_line:
            self._let_in()

    def give_slot(self) -> None:
        self._slots.give()
        if self._in_line:
            self._let_in()

    def _let_in(self) -> None:
        """Have the first in line begin, unless all in line are owed their slots."""
        if len(self._in_line) > -self._slots.free:
            self._trampoline.add(self._in_line.popleft())

    def _begun(self, run: Run) -> Work:
        self.running.add(run)
        return self._begin(run)

    def waiting(self) -> list[Run]:
        """The runs of single jobs that are not under way."""
        in_line = [
            member for run in (*self._trampoline.waiting, *self._in_line) for member in run.members
        ]
        return [*self._batcher.waiting(), *in_line]

    def withdraw(self, run: Run) -> None:
        """Take out a job that is not under way."""
        if self._batcher.leave_out(run):
            return
        for line in (self._trampoline.waiting, self._in_line):
            for other in line:
                if run in other.members:
                    if isinstance(other, BatchRun):
                        other.leave_out(run)
                    if other is run or not other.members:
                        line.remove(other)
                        self.give_slot()
                    return
