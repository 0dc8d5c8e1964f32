"""The runs that a consumer loop has in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.core.job.capacity import Runner
from headrace.worker.run.batcher import Batcher, BatchRun
from headrace.worker.run.run import Run
from headrace.worker.run.slots import Slots
from headrace.worker.run.trampoline import Trampoline, Work


class InFlight:
    """Owns all runs from their admission until their function has ended, and alone moves them:

        gather → (batch is full) ┐
        add ─────────────────────┴→ waiting for a slot → ready → running → remove

    A run is also `running` while it waits for a thread or a process: `has_begun` tells. Each run
    comes with a slot, which the reader took for it. With `delivery_slots`, deliveries keep the
    reader's slots until they are settled; only runs that outlast their outcome then take one.
    `perform` gives the steps of a run; the first is `mark_running`. Runs in threads and
    processes are first given to `start_directly`, which returns whether that is all they need."""

    def __init__(
        self,
        slots: Slots,
        perform: Callable[[Run], Work],
        start_directly: Callable[[Run], bool],
        delivery_slots: Slots | None = None,
    ) -> None:
        self._slots = slots if delivery_slots is None else Slots(0)
        self._delivery_slots = delivery_slots
        self._batcher = Batcher(self._slots, self._enter)
        self._without_slot: deque[Run] = deque()
        self._start_directly = start_directly
        self._trampoline = Trampoline(perform)
        self._outlasting: dict[Run, int] = {}
        self._finishing: set[asyncio.Future[None]] = set()
        self.running: dict[Run, None] = {}
        """In the order in which they came."""

    # On the way to the function

    def gather(self, run: Run) -> None:
        """Add a job to a batch. While the batch fills, the job needs no slot."""
        if not self._batcher.add(run):
            # Not `give`, which would wake the reader: the reader is the caller.
            self._slots.free += 1
            if self._without_slot:
                self._let_in()

    def flush(self) -> None:
        """Let unfinished batches begin."""
        self._batcher.flush()

    def add(self, run: Run) -> None:
        """Let a run begin as soon as it has its slot."""
        self._slots.batch_extra = 0
        self._enter(run)

    def _enter(self, run: Run) -> None:
        if self._slots.free >= 0:
            self._launch(run)
        elif run.task.declared.run_in != "thread" or not self._is_queued(run):
            # More came than there are slots: the reader expected a batch, or that jobs end at once.
            # First come, first served.
            self._without_slot.append(run)
            self._let_in()

    def _let_in(self) -> None:
        """Let the first run without a slot begin, if a slot is free for it."""
        if len(self._without_slot) > -self._slots.free:
            self._launch(run := self._without_slot.popleft())
            if run.thread_call is not None and self._without_slot:
                self._let_into_threads()

    def _let_into_threads(self) -> None:
        """Let those without a slot wait for a thread that need no slot for that."""
        waiting, self._without_slot = self._without_slot, deque()
        left = [
            run
            for run in waiting
            if run.task.declared.run_in != "thread" or not self._is_queued(run)
        ]
        self._without_slot.extendleft(reversed(left))

    def _is_queued(self, run: Run) -> bool:
        """Whether the run has gone to the threads, since it needs no slot to wait for one."""
        return self._slots.thread_needs_none and self._start_directly(run)

    def _launch(self, run: Run) -> None:
        if run.task.declared.run_in == "loop" or not self._start_directly(run):
            self._trampoline.add(run)

    def mark_running(self, run: Run) -> None:
        self.running[run] = None

    def mark_direct(self, run: Run) -> None:
        """Mark a run that a thread or a process begins, once one is free."""
        self.running[run] = None
        if run.task.declared.run_in == "thread":
            self._slots.enter_thread()

    # At its end

    @contextmanager
    def finishing(self, run: Run) -> Iterator[None]:
        """While its end is recorded, a run cannot be cancelled; a stopping worker waits for it."""
        self.running.pop(run, None)
        self._finishing.add(run.when_ended())
        try:
            yield
        finally:
            self._finishing.discard(run.when_ended())

    def finish(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Record the end of a run that has left before; a stop waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return task

    def resume(self, run: Run) -> None:
        """Its end is recorded, but its function may go on, and be ended."""
        self.running[run] = None

    def outlast(self, run: Run) -> None:
        """The run has its outcome, but its function goes on: it keeps its place until it ends."""
        slots = self._delivery_slots
        if slots is not None and run in self.running and run not in self._outlasting:
            self._outlasting[run] = len(run.members)
            slots.take(len(run.members))

    @contextmanager
    def outlasting(self, run: Run) -> Iterator[None]:
        """Within `with`, the function of a run with an outcome goes on; a stop waits for it."""
        self.outlast(run)
        self._finishing.add(run.when_ended())
        try:
            yield
        finally:
            self._finishing.discard(run.when_ended())

    def remove(self, run: Run) -> None:
        """The function has ended: its slot is free."""
        self.running.pop(run, None)
        if self._outlasting and self._delivery_slots is not None:
            self._delivery_slots.give(self._outlasting.pop(run, 0))
        self.give_slot()

    def remove_direct(self, run: Run) -> None:
        """The function of a run that `start_directly` has taken has ended: its slot is free."""
        if run.thread_call is None:
            self.remove(run)
            return
        self.running.pop(run, None)
        if self._outlasting and self._delivery_slots is not None:
            self._delivery_slots.give(self._outlasting.pop(run, 0))
        self._slots.leave_thread()
        if self._without_slot:
            self._let_in()

    def give_slot(self) -> None:
        """Free the slot of a delivery that does not run."""
        self._slots.give()
        if self._without_slot:
            self._let_in()

    # For stopping and waiting

    @property
    def busy(self) -> list[asyncio.Future[None]]:
        """What must end before all outcomes are known. An abandoned run has its outcome: nobody
        waits for a thread that cannot be stopped."""
        running = (run.when_ended() for run in self.running if not run.abandoned)
        return [*running, *self._finishing, *self._trampoline.free]

    def waiting(self) -> list[Run]:
        """The runs of single jobs that have not begun."""
        entered = (*self._trampoline.ready, *self._without_slot)
        members = [member for run in entered for member in run.members]
        return [*self._batcher.waiting(), *members]

    def overdue(self, before: float, runners: Collection[Runner]) -> list[Run]:
        """The runs of single jobs that wait for a slot, of these runners; all, if one of them has
        waited since before this time."""
        waiting = self._without_slot
        if not any(run.delivery.leased_at < before for run in waiting):
            waiting = deque(run for run in waiting if run.task.declared.run_in in runners)
        return [member for run in waiting for member in run.members]

    def withdraw(self, run: Run) -> None:
        """Take out a job that has not begun."""
        if self._batcher.leave_out(run):
            return
        for queue in (self._trampoline.ready, self._without_slot):
            for other in queue:
                if run in other.members:
                    if isinstance(other, BatchRun):
                        other.leave_out(run)
                    if other is run or not other.members:
                        queue.remove(other)
                        self.give_slot()
                    return
