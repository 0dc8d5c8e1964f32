"""Turns one delivery into one outcome, and writes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.client.delivery import Dropped
from headrace.core.delivery import Delivery
from headrace.core.judgement import NotNow
from headrace.core.outcome import LEFT, Outcome
from headrace.errors import AuditError
from headrace.store.values import Control
from headrace.worker.admitter import Admitter
from headrace.worker.batcher import errors_of, values_of
from headrace.worker.by_hand import HandRun
from headrace.worker.facts import Facts
from headrace.worker.floor import Floor
from headrace.worker.intake import Intake
from headrace.worker.manner import PLAIN, Manner
from headrace.worker.outcomes import Outcomes
from headrace.worker.recording import Recording
from headrace.worker.run import BatchRun, Host, Run
from headrace.worker.runners import Runners, forks
from headrace.worker.slots import Slots
from headrace.worker.stopper import Stopper
from headrace.worker.strands import Work

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
        manner: Manner = PLAIN,
    ) -> None:
        self._runners = runners
        self._settle = settle
        self._slots = slots
        self._host = Host(worker, state, partial(admitter.admit, refuse=self._refuse), voices)
        self._events = events
        self._intake = Intake(
            tasks,
            crash_limit=crash_limit,
            max_payload=max_payload,
            now_ms=now_ms,
            unpack_all=runners.wrapped,
        )
        self._outcomes = Outcomes(
            worker,
            max_payload=max_payload,
            now_ms=now_ms,
            observe=manner.observe,
            dying=manner.dying,
        )
        self._floor = Floor(slots, self._begin, manner.in_flight)
        self._receive = manner.receive
        self._by_hand = manner.by_hand
        self._auditing = manner.auditing
        if self._auditing is not None:
            self._auditing.attach(self._outcomes.of_error)
        self._late: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._sweeping = False
        self._facts = Facts(now_ms)
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

    @property
    def busy(self) -> list[asyncio.Future[None]]:
        """What must end before all outcomes are known. What is abandoned has its outcome: nobody
        waits for the thread that cannot be stopped."""
        under_way = (run.future for run in self.runs if not run.abandoned)
        return [*under_way, *self._late, *self._floor.serving]

    def start(self, delivery: Delivery) -> None:
        """The first steps of every job, in order; then it runs, alone or in a batch."""
        run = Run(delivery, self._host)
        try:
            self._intake.decode(run)
            self._intake.resolve(run)
            self._intake.admit(run)
        except BaseException as error:
            recording = self._conclude(run, self._outcomes.of_error(run, error))
            if recording is None:
                self._floor.give_slot()
            else:
                recording.add_done_callback(lambda _: self._floor.give_slot())
            return
        if run.task.declared.batch:
            self._floor.gather(run)
        elif self._receive is not None:
            self._receive(run)
        else:
            self._slots.beyond = 0
            self._floor.enter(run)

    def place(self, run: Run) -> None:
        """Let a run begin that was given to `receive`."""
        self._floor.enter(run)

    def flush(self) -> None:
        """Run the batches that are not full yet."""
        self._floor.flush()

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

    async def execute_by_hand(self, run: Run, hand: HandRun) -> Outcome:
        """The same for an event of which its function says what becomes of it."""
        try:
            decision = await hand.decision()
            if decision is not None:
                raise decision
            return self._outcomes.of_value(run, None)
        except Dropped:
            return LEFT
        except BaseException as error:
            hand.fate.close()
            return self._outcomes.of_error(run, error)

    def _begin(self, run: Run) -> Work:
        if isinstance(run, BatchRun):
            return self._work_batch(run)
        return self._work(run) if self._by_hand is None else self._work_by_hand(run)

    async def _work(self, run: Run) -> None:
        outcome = await self.execute(run)
        if forks() != self._forks:
            # The handler forked and its child came back here: the job belongs to the parent.
            os._exit(0)
        if not run.abandoned:
            if self._events:
                self._facts.note(run)
            if self._auditing is not None:
                (outcome,) = await self._recorded(self._auditing, run, [run], [outcome])
            self._settle(run.delivery, outcome)
        self._floor.leave(run)

    async def _work_by_hand(self, run: Run) -> None:
        """The same for an event that its function settles: before it returns, or after."""
        hand = HandRun(run, self._enter)
        outcome = await self.execute_by_hand(run, hand)
        if self._auditing is not None and not run.abandoned:
            (known,) = await self._recorded(self._auditing, run, [run], [outcome])
            # The function may go on, and be told to end.
            self._floor.running.add(run)
            if known is not outcome:
                outcome = known
                hand.fate.written(AuditError("the event fails: this could not be recorded"))
        if not run.abandoned:
            if self._by_hand is not None:
                self._by_hand(run.delivery, hand.fate)
            self._conclude(run, outcome, audited=True)
        try:
            if hand.goes_on:
                await self._to_its_end(run, hand)
        finally:
            self._floor.leave(run)

    async def _work_batch(self, batch: BatchRun) -> None:
        outcomes = await self.execute_batch(batch)
        if forks() != self._forks:
            os._exit(0)
        if self._events:
            self._facts.note_all(batch)
        pairs = zip(batch.members, outcomes, strict=True)
        known = [(run, outcome) for run, outcome in pairs if not run.abandoned]
        if self._auditing is not None and known:
            runs = [run for run, _ in known]
            outcomes = [outcome for _, outcome in known]
            outcomes = await self._recorded(self._auditing, batch, runs, outcomes)
            known = list(zip(runs, outcomes, strict=True))
        for run, outcome in known:
            self._settle(run.delivery, outcome)
        self._floor.leave(batch)

    def _enter(self, run: Run) -> Awaitable[Any]:
        if not self._sweeping:
            self._watch_deadlines()
        return self._runners.start(run)

    def _refuse(self, run: Run, why: NotNow) -> None:
        self._conclude(run, self._outcomes.of_error(run, why))

    async def _to_its_end(self, run: Run, hand: HandRun) -> None:
        """Wait for a function that goes on although its event is settled, and be waited for."""
        self._floor.outlast(run)
        self._late.add(run.future)
        try:
            error = await hand.rest()
            if error is not None:
                self._outcomes.note(run, error)
        finally:
            self._late.discard(run.future)

    async def _recorded(
        self, auditing: Recording, whole: Run, runs: Sequence[Run], outcomes: Sequence[Outcome]
    ) -> list[Outcome]:
        """What is to be settled, once the runs are recorded. They have ended, each in its time:
        nobody is to end them meanwhile."""
        self._floor.running.discard(whole)
        self._late.add(whole.future)
        try:
            return await auditing.outcomes(runs, outcomes)
        finally:
            self._late.discard(whole.future)

    def _conclude(
        self, run: Run, outcome: Outcome, *, audited: bool = False
    ) -> asyncio.Task[None] | None:
        """Settle a job, if need be when it is recorded; what its function may still do is of no
        interest."""
        run.abandoned = True
        if self._events and hasattr(run, "envelope"):
            self._facts.note(run)
        if self._auditing is None or audited:
            self._settle(run.delivery, outcome)
            return None
        late = self._loop.create_task(self._settle_recorded(self._auditing, run, outcome))
        self._late.add(late)
        late.add_done_callback(self._late.discard)
        return late

    async def _settle_recorded(self, auditing: Recording, run: Run, outcome: Outcome) -> None:
        (outcome,) = await auditing.outcomes([run], [outcome])
        self._settle(run.delivery, outcome)

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
