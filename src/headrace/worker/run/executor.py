"""Turns one delivery into one outcome, and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.client.delivery import Fate
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.failure import NotNow
from headrace.core.job.outcome import Outcome
from headrace.store.values import Control
from headrace.worker.consume.settler import Settle
from headrace.worker.run.ack_policy import PLAIN, Manner
from headrace.worker.run.admitter import Admitter
from headrace.worker.run.batcher import errors_of, values_of
from headrace.worker.run.facts import Facts
from headrace.worker.run.in_flight import InFlight
from headrace.worker.run.intake import Intake
from headrace.worker.run.manual_ack import HandWork
from headrace.worker.run.outcomes import Outcomes
from headrace.worker.run.recording import Recorder, Recording
from headrace.worker.run.run import BatchRun, Host, Run
from headrace.worker.run.runners import Runners, end_if_forked, forks
from headrace.worker.run.settings import Terms
from headrace.worker.run.slots import Slots
from headrace.worker.run.stopper import Stopper
from headrace.worker.run.trampoline import Work

if TYPE_CHECKING:
    from headrace.client.task import Task

_SWEEP = 0.05


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
        terms: Terms,
        manner: Manner = PLAIN,
    ) -> None:
        self._runners = runners
        self._settle = settle
        self._slots = slots
        self._host = Host(
            terms.worker, terms.state, partial(admitter.admit, refuse=self._refuse), terms.reporters
        )
        self._intake = _intake(tasks, terms, unpack_all=runners.wrapped)
        self._outcomes = _outcomes(terms, manner)
        self._in_flight = InFlight(slots, self._begin, manner.in_flight)
        self._receive = manner.receive
        self._recorder = self._recorder_with(manner.auditing)
        self._by_hand = self._by_hand_with(manner.by_hand)
        self._loop = asyncio.get_running_loop()
        self._sweeping = False
        self._events = terms.events
        self._facts = Facts(terms.now_ms)
        self._forks = forks()
        self.stopper = Stopper(self._in_flight, self._outcomes, self._conclude)

    def _recorder_with(self, recording: Recording | None) -> Recorder | None:
        if recording is None:
            return None
        recording.attach(self._outcomes.of_error)
        return Recorder(recording, self._in_flight, self._settle)

    def _by_hand_with(
        self, expect: Callable[[LeasedDelivery, Fate], None] | None
    ) -> HandWork | None:
        if expect is None:
            return None
        close = partial(self._conclude, audited=True)
        return HandWork(self._enter, self._outcomes, self._in_flight, self._recorder, expect, close)

    @property
    def runs(self) -> set[Run]:
        """Those that are under way."""
        return self._in_flight.running

    def apply_control(self, queue: str, control: Control) -> None:
        """Do, and do from now on, what people want of a queue."""
        in_hand = self.stopper.apply_control(queue, control)
        self._intake.apply_control(queue, control, in_hand)

    @property
    def busy(self) -> list[asyncio.Future[None]]:
        """What must end before all outcomes are known. What is abandoned has its outcome: nobody
        waits for the thread that cannot be stopped."""
        under_way = (run.future for run in self.runs if not run.abandoned)
        return [*under_way, *self._in_flight.late, *self._in_flight.serving]

    def start(self, delivery: LeasedDelivery) -> None:
        """The first steps of every job, in order; then it runs, alone or in a batch."""
        run = Run(delivery, self._host)
        try:
            self._intake.decode(run)
            self._intake.resolve(run)
            self._intake.admit(run)
        except BaseException as error:
            recording = self._conclude(run, self._outcomes.of_error(run, error))
            if recording is None:
                self._in_flight.give_slot()
            else:
                recording.add_done_callback(lambda _: self._in_flight.give_slot())
            return
        if run.task.declared.batch:
            self._in_flight.gather(run)
        elif self._receive is not None:
            self._receive(run)
        else:
            self._slots.beyond = 0
            self._in_flight.enter(run)

    def place(self, run: Run) -> None:
        """Let a run begin that was given to `receive`."""
        self._in_flight.enter(run)

    def flush(self) -> None:
        """Run the batches that are not full yet."""
        self._in_flight.flush()

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

    def _begin(self, run: Run) -> Work:
        if isinstance(run, BatchRun):
            return self._work_batch(run)
        return self._work(run) if self._by_hand is None else self._by_hand.work(run)

    async def _work(self, run: Run) -> None:
        outcome = await self.execute(run)
        end_if_forked(self._forks)
        if not run.abandoned:
            if self._events:
                self._facts.note(run)
            if self._recorder is not None:
                (outcome,) = await self._recorder.outcomes(run, [run], [outcome])
            self._settle(run.delivery, outcome)
        self._in_flight.leave(run)

    async def _work_batch(self, batch: BatchRun) -> None:
        outcomes = await self.execute_batch(batch)
        end_if_forked(self._forks)
        if self._events:
            self._facts.note_all(batch)
        pairs = zip(batch.members, outcomes, strict=True)
        known = [(run, outcome) for run, outcome in pairs if not run.abandoned]
        if self._recorder is not None and known:
            runs = [run for run, _ in known]
            outcomes = [outcome for _, outcome in known]
            outcomes = await self._recorder.outcomes(batch, runs, outcomes)
            known = list(zip(runs, outcomes, strict=True))
        for run, outcome in known:
            self._settle(run.delivery, outcome)
        self._in_flight.leave(batch)

    def _enter(self, run: Run) -> Awaitable[Any]:
        if not self._sweeping:
            self._watch_deadlines()
        return self._runners.start(run)

    def _refuse(self, run: Run, why: NotNow) -> None:
        self._conclude(run, self._outcomes.of_error(run, why))

    def _conclude(
        self, run: Run, outcome: Outcome, *, audited: bool = False
    ) -> asyncio.Task[None] | None:
        """Settle a job, if need be when it is recorded; what its function may still do is of no
        interest."""
        run.abandoned = True
        if self._events and hasattr(run, "envelope"):
            self._facts.note(run)
        if self._recorder is None or audited:
            self._settle(run.delivery, outcome)
            return None
        return self._recorder.settle(run, outcome)

    def _watch_deadlines(self) -> None:
        """One timer for all runs, there only while there are any."""
        self._sweeping = True
        self._facts.look_at_clock()
        self._loop.call_later(_SWEEP, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = False
        self.stopper.sweep()
        if self.runs:
            self._watch_deadlines()


def _intake(tasks: Mapping[str, Task[..., Any]], terms: Terms, *, unpack_all: bool) -> Intake:
    return Intake(
        tasks,
        crash_limit=terms.crash_limit,
        # A topic may have a limit of its own, below or above the app's.
        max_payload=max((task.max_payload for task in tasks.values()), default=terms.max_payload),
        now_ms=terms.now_ms,
        unpack_all=unpack_all,
    )


def _outcomes(terms: Terms, manner: Manner) -> Outcomes:
    return Outcomes(
        terms.worker,
        max_payload=terms.max_payload,
        now_ms=terms.now_ms,
        observe=manner.observe,
        dying=manner.dying,
    )
