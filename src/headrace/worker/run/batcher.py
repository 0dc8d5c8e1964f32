"""Gathers the jobs of batch tasks, and splits the answer of their function."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.core.job.delivery import Receipt
from headrace.core.job.failure import GateClosed, Unfit, describe
from headrace.core.job.history import NO_HISTORY
from headrace.core.job.retry import RemoteError, names_of
from headrace.core.job.state import Reason
from headrace.core.wrong_use import kind_of
from headrace.errors import BatchError, TaskControl
from headrace.worker.run.run import Run
from headrace.worker.run.slots import Slots

_FOREVER = float("inf")


class BatchRun(Run):
    """Several jobs of a batch task that run as one, with the context of the first."""

    _timeout = _FOREVER
    refuse: Callable[[Run, BaseException], None]
    """Ends a member that may not run."""

    def __init__(self, members: Sequence[Run]) -> None:
        first = members[0]
        super().__init__(first.delivery, first.settings)
        self.envelope = first.envelope
        self.task = first.task
        self.history = first.history
        self.kwargs = {}
        self.limited = True in [member.limited for member in members]
        self._members = list(members)

    @property
    def members(self) -> Sequence[Run]:
        return self._members

    def handle(self) -> None:
        """None: there are several events."""

    def leave_out(self, member: Run) -> None:
        """Only while it has not begun."""
        self._members.remove(member)

    def begin(self) -> None:
        """`refuse` the members that have expired; `Unfit` if that is all of them."""
        expiring = [m for m in self._members if m.envelope.overrides.expires_ms is not None]
        for member in expiring:
            try:
                member.check_expiry()
            except Unfit as error:
                self.leave_out(member)
                self.refuse(member, error)
                if not self._members:
                    raise
        items: list[Any] = []
        self._timeout = self.task.declared.timeout or _FOREVER
        started = self.started = time.monotonic()
        for member in self._members:
            member.started = started
            items.append(member.args[0])
            if timeout := member.envelope.overrides.timeout:
                self._timeout = min(self._timeout, timeout)
        self.ends_at = started + self._timeout
        self.args = (items,)
        if self.settings.count_batch is not None:
            self.settings.count_batch(self.task.name, len(items))

    @property
    def timeout(self) -> float | None:
        """The shortest of its jobs."""
        return None if self._timeout == _FOREVER else self._timeout

    def note_facts(self, ahead_ms: float) -> None:
        """Note them for each job: all began and ended together."""
        started_ms = took_us = 0
        if self.started:
            started_ms = int(self.started * 1000 + ahead_ms)
            took_us = int((time.monotonic() - self.started) * 1_000_000)
        task = self.envelope.task
        for run in self._members:
            if not run.abandoned:
                delivery = run.delivery
                delivery.task, delivery.attempt = (
                    task,
                    1 if run.history is NO_HISTORY else run.attempt,
                )
                delivery.started_ms, delivery.took_us = started_ms, took_us


class Batcher:
    """One batch of each task fills at a time. A job that waits in it needs no slot; the batch takes
    one when it is launched: when it is full, or `max_wait` after its first job came. Batches that
    gathered in the store are launched as they come."""

    def __init__(self, slots: Slots, launch: Callable[[Run], None]) -> None:
        self._slots = slots
        self._launch = launch
        self._loop = asyncio.get_running_loop()
        self._filling: dict[Receipt, _Filling] = {}

    def add(self, run: Run) -> bool:
        """True if the batch is launched now, with the slot of this job."""
        task = run.task
        if task.declared.gathering is not None:
            return self._join_gathered(run)
        if run.on_last_chance:
            self._launch(BatchRun([run]))
            return True
        filling = self._filling.get(task.name)
        if filling is None:
            filling = self._filling[task.name] = _Filling()
        runs = filling.runs
        runs.append(run)
        missing = (task.declared.batch or 1) - len(runs)
        # One more with each job in a row that is for a batch; any other sets it back to none.
        extra = self._slots.batch_extra + 1
        self._slots.batch_extra = extra if extra < missing else missing
        if missing <= 0:
            self._slots.batch_extra = extra
            self._launch(filling.closed())
            return True
        if filling.timer is None:
            filling.timer = self._loop.call_later(task.declared.max_wait, self._time_is_up, filling)
        return False

    def _join_gathered(self, run: Run) -> bool:
        """The store has gathered the batch, and hands it out as a whole: all that the reader brings
        of it now. A job that the store has not gathered runs alone."""
        self._slots.batch_extra = 0
        batch = run.delivery.batch
        if run.on_last_chance or not batch:
            self._launch(BatchRun([run]))
            return True
        filling = self._filling.get(batch)
        if filling is None:
            filling = self._filling[batch] = _Filling()
            self._loop.call_soon(self._is_whole, batch)
        filling.runs.append(run)
        return False

    def _is_whole(self, batch: Receipt) -> None:
        filling = self._filling.pop(batch)
        if filling.runs:
            self._time_is_up(filling)

    def waiting(self) -> Iterator[Run]:
        """The jobs that have not begun."""
        for filling in self._filling.values():
            yield from filling.runs

    def leave_out(self, run: Run) -> bool:
        """Whether the job was one of those that wait."""
        filling = self._filling.get(run.delivery.batch or run.task.name)
        if filling is None or run not in filling.runs:
            return False
        filling.runs.remove(run)
        if not filling.runs:
            filling.stop_timer()
        return True

    def flush(self) -> None:
        """Launch all batches, full or not."""
        for filling in self._filling.values():
            if filling.runs:
                self._time_is_up(filling)

    def _time_is_up(self, filling: _Filling) -> None:
        self._slots.take(1)
        self._launch(filling.closed())


class _Filling:
    """A batch that is not full yet."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.timer: asyncio.TimerHandle | None = None

    def closed(self) -> BatchRun:
        self.stop_timer()
        batch = BatchRun(self.runs)
        self.runs = []
        return batch

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def values_of(batch: BatchRun, value: Any) -> Sequence[Any]:
    """The value of each job; an exception in the list is the failure of that job."""
    count = len(batch.members)
    if value is None:
        return [None] * count
    if not isinstance(value, list):
        raise _wrong(batch, kind_of(value))
    items = list(value)
    if len(items) != count:
        raise _wrong(batch, f"a list of {len(items)} for {count} jobs")
    return items


def errors_of(batch: BatchRun, error: BaseException) -> Sequence[Any]:
    """The error of each job; None for those that are done nevertheless."""
    count = len(batch.members)
    if isinstance(error, BatchError):
        named: Any = getattr(error, "errors", None)
        if not _names_jobs(named, count):
            error = Unfit(
                Reason.BAD_RESULT,
                f"a BatchError of batch task {batch.task.name!r} does not give exceptions by the "
                f"positions of their jobs in the list, 0 to {count - 1}",
            )
        else:
            return [named.get(place) for place in range(count)]
    if isinstance(error, Exception) and not isinstance(error, (Unfit, GateClosed, TaskControl)):
        # Described once, not for each job.
        _, text, trace = describe(error)
        remote = RemoteError(names_of(error), text, trace)
        remote.__cause__ = error
        error = remote
    return [error] * count


def _names_jobs(named: Any, count: int) -> bool:
    return isinstance(named, dict) and all(
        place in range(count) and isinstance(error, BaseException) for place, error in named.items()
    )


def _wrong(batch: BatchRun, what: str) -> Unfit:
    return Unfit(
        Reason.BAD_RESULT,
        f"batch task {batch.task.name!r} returned {what}; it must return None, or a list with one "
        "result for each job, in order",
    )
