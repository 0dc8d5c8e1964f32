"""Turns one delivery into one outcome, and writes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from headrace.core.delivery import Delivery
from headrace.core.job import NO_PAST
from headrace.core.judgement import NotNow
from headrace.core.outcome import Outcome
from headrace.store.values import Control
from headrace.worker.admitter import Admitter
from headrace.worker.batcher import errors_of, values_of
from headrace.worker.floor import Floor
from headrace.worker.intake import Intake
from headrace.worker.outcomes import Outcomes
from headrace.worker.run import BatchRun, Host, Run
from headrace.worker.runners import Runners, forks
from headrace.worker.slots import Slots
from headrace.worker.stopper import Stopper

if TYPE_CHECKING:
    from headrace.client.task import Task
    from headrace.worker.voice import Voices

_SWEEP = 0.05

Settle = Callable[[Delivery, Outcome], None]


class Executor:
    """Runs deliveries side by side. `settle` is called once for each; its slot is given back when
    it may be used again, which for a thread that will not end is later."""

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        runners: Runners,
        admitter: Admitter,
        settle: Settle,
        slots: Slots,
        *,
        worker: str,
        state: Any,
        crash_limit: int,
        max_payload: int,
        now_ms: Callable[[], int],
        events: bool = True,
        voices: Voices | None = None,
    ) -> None:
        self._runners = runners
        self._admitter = admitter
        self._settle = settle
        self._slots = slots
        self._host = Host(worker, state, self._admitted, voices)
        self._now_ms = now_ms
        self._events = events
        self._intake = Intake(
            tasks,
            crash_limit=crash_limit,
            max_payload=max_payload,
            now_ms=now_ms,
            unpack_all=runners.wrapped,
        )
        self._outcomes = Outcomes(worker, max_payload=max_payload, now_ms=now_ms)
        self._floor = Floor(slots, self._begin)
        self._loop = asyncio.get_running_loop()
        self._sweeping = False
        self._ahead_ms = 0.0
        self._forks = forks()
        self.stopper = Stopper(self._floor, self._outcomes, self._conclude)

    @property
    def runs(self) -> set[Run]:
        """Those that are under way."""
        return self._floor.running

    def heed(self, queue: str, control: Control) -> None:
        """Do, and do from now on, what people want of a queue."""
        in_hand = self.stopper.heed(queue, control)
        self._intake.heed(queue, control, in_hand)

    def start(self, delivery: Delivery) -> None:
        """The first steps of every job, in order; then it runs, alone or in a batch."""
        run = Run(delivery, self._host)
        try:
            self._intake.decode(run)
            self._intake.resolve(run)
            self._intake.admit(run)
        except BaseException as error:
            self._conclude(run, self._outcomes.of_error(run, error))
            self._floor.give_slot()
            return
        if run.task.declared.batch:
            self._floor.gather(run)
        else:
            self._slots.beyond = 0
            self._floor.enter(run)

    async def execute(self, run: Run) -> Outcome:
        """The other steps, in order."""
        try:
            value = await self._enter(run)
            return self._outcomes.of_value(run, value)
        except BaseException as error:
            return self._outcomes.of_error(run, error)

    async def execute_batch(self, batch: BatchRun) -> list[Outcome]:
        """The same for many jobs that run as one; their outcomes in order."""
        try:
            answers = values_of(batch, await self._enter(batch))
        except BaseException as error:
            answers = errors_of(batch, error)
        return self._outcomes.of_answers(batch.members, answers)

    def _begin(self, run: Run) -> None:
        work = self._work_batch(run) if isinstance(run, BatchRun) else self._work(run)
        # Not loop.create_task, which makes up a name for each; this is called once per job.
        run.future = asyncio.Task(work, loop=self._loop, name="headrace-job")

    async def _work(self, run: Run) -> None:
        outcome = await self.execute(run)
        if forks() != self._forks:
            # The handler forked and its child came back here: the job belongs to the parent.
            os._exit(0)
        if not run.abandoned:
            if self._events:
                self._record(run)
            self._settle(run.delivery, outcome)
        self._floor.leave(run)

    async def _work_batch(self, batch: BatchRun) -> None:
        outcomes = await self.execute_batch(batch)
        if forks() != self._forks:
            os._exit(0)
        if self._events:
            self._record_all(batch)
        for run, outcome in zip(batch.members, outcomes, strict=True):
            if not run.abandoned:
                self._settle(run.delivery, outcome)
        self._floor.leave(batch)

    def _enter(self, run: Run) -> Awaitable[Any]:
        if not self._sweeping:
            self._watch_deadlines()
        return self._runners.start(run)

    async def _admitted(self, run: Run) -> None:
        """Have the start of a run counted. Of a batch those may go on that may start."""
        if not isinstance(run, BatchRun):
            await self._admitter.begin(run.delivery)
            return
        limited = [member for member in run.members if member.limited]
        gates = await asyncio.gather(*(self._admitter.ask(m.delivery) for m in limited))
        for member, gate in zip(limited, gates, strict=True):
            if gate and not member.abandoned:
                run.leave_out(member)
                self._conclude(member, self._outcomes.of_error(member, NotNow(gate)))
        if not run.members:
            raise NotNow(gates[0])

    def _conclude(self, run: Run, outcome: Outcome) -> None:
        """Settle a job; what its function may still do is of no interest."""
        run.abandoned = True
        if self._events and hasattr(run, "envelope"):
            self._record(run)
        self._settle(run.delivery, outcome)

    def _record(self, run: Run) -> None:
        """Note what the store tells of this run in its events."""
        delivery, started = run.delivery, run.started
        delivery.task = run.envelope.task
        if started:
            delivery.attempt = 1 if run.past is NO_PAST else run.attempt
            delivery.started_ms = int(started * 1000 + self._ahead_ms)
            delivery.took_us = int((monotonic() - started) * 1_000_000)

    def _record_all(self, batch: BatchRun) -> None:
        """The same for each job of a batch: they began and ended together."""
        started_ms = took_us = 0
        if batch.started:
            started_ms = int(batch.started * 1000 + self._ahead_ms)
            took_us = int((monotonic() - batch.started) * 1_000_000)
        task = batch.task.name
        for run in batch.members:
            if not run.abandoned:
                delivery = run.delivery
                delivery.task, delivery.attempt = task, 1 if run.past is NO_PAST else run.attempt
                delivery.started_ms, delivery.took_us = started_ms, took_us

    def _watch_deadlines(self) -> None:
        """One timer for all runs, there only while there are any."""
        self._sweeping = True
        # How far the store's clock is ahead of the monotonic one: asked now and then, not per job.
        self._ahead_ms = self._now_ms() - monotonic() * 1000
        self._loop.call_later(_SWEEP, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = False
        self.stopper.sweep()
        if self.runs:
            self._watch_deadlines()
