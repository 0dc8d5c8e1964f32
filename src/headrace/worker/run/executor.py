"""The steps of a run, from delivery to outcome, in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import Outcome, Released
from headrace.core.job.unknown import BadArguments
from headrace.errors import AuditError
from headrace.store.values import Control
from headrace.worker.observer import Observe
from headrace.worker.run.ack_policy import AckPolicy
from headrace.worker.run.admitter import Admitter
from headrace.worker.run.auditing import Auditing
from headrace.worker.run.batcher import BatchRun, errors_of, values_of
from headrace.worker.run.fork_guard import end_if_forked, forks
from headrace.worker.run.in_flight import InFlight
from headrace.worker.run.intake import Intake
from headrace.worker.run.manual_ack import UNRECORDED, ManualRun
from headrace.worker.run.outcomes import Outcomes
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from headrace.worker.run.runners import Runners
from headrace.worker.run.slots import Slots
from headrace.worker.run.stopper import Stopper
from headrace.worker.run.trampoline import Work

if TYPE_CHECKING:
    from headrace.client.task import Task

log = logging.getLogger("headrace.worker")

_SWEEP = 0.05


class Executor:
    """Turns each delivery of a consumer loop into one outcome, and gives it to the loop's policy;
    it writes nothing. A job's slot is free when its function has ended, an event's when its outcome
    is written; the policy says so. A thread that does not end keeps its slot after the outcome."""

    new_run: type[Run] = Run
    new_outcomes: type[Outcomes] = Outcomes

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        runners: Runners,
        admitter: Admitter,
        slots: Slots,
        settings: RunSettings,
        policy: AckPolicy,
        *,
        auditing: Auditing | None = None,
        observe: Observe | None = None,
        ready_ms: Callable[[LeasedDelivery], int] | None = None,
    ) -> None:
        self._settings, self._policy, self._auditing = settings, policy, auditing
        self._runners = runners
        self._count_start = partial(admitter.count_start, refuse=self._refuse)
        self._intake = Intake(tasks, settings, unpack_all=runners.wrapped)
        self._outcomes = self.new_outcomes(settings, observe, kept=policy.kept, ready_ms=ready_ms)
        if auditing is not None:
            auditing.attach(self._outcomes.of_error)
        self._forks = forks()
        self._loop = asyncio.get_running_loop()
        self._watching, self._ahead_ms = False, 0.0
        # Without all that needs the loop before or after the function.
        self._direct = not (runners.wrapped or auditing or policy.manual)
        self.in_flight = InFlight(slots, self._steps, self._start_directly, policy.delivery_slots)
        self.stopper = Stopper(
            self.in_flight,
            self._outcomes,
            self.conclude,
            runners.withdraw,
            runners.is_behind,
            returns=policy.returns,
            late_after=settings.late_after,
        )

    def start(self, delivery: LeasedDelivery, loaded: Run | None = None) -> None:
        """The steps before a run begins. It begins when it has a slot, alone or in a batch: the
        next step is `_steps`."""
        run = loaded or self.new_run(delivery, self._settings)
        try:
            if loaded is None and not self._intake.decode(run):
                self.in_flight.finish(self._intake.load(run, self.start, self._turn_back))
                return
            self._intake.resolve(run)
            self._intake.check_may_run(run)
        except BaseException as error:
            self._turn_back(run, error)
            return
        (self.in_flight.gather if run.task.declared.batch else self._policy.received)(run)

    def _steps(self, run: Run) -> Work:
        """The steps of a run from its begin to its end. The trampoline calls this when the run has
        its slot; `policy.received`, or the batch that is full, hands it there."""
        if isinstance(run, BatchRun):
            return self._perform_batch(run)
        return self._perform_manual(run) if self._policy.manual else self._perform(run)

    async def _perform(self, run: Run) -> None:
        """Run the function of a single job or event, and settle it."""
        self.in_flight.mark_running(run)
        try:
            run.outcome = self._outcomes.of_value(run, await self._enter(run))
        except BadArguments as error:
            # Of a function in a process, which alone had read them.
            run.outcome = self._outcomes.of_error(run, await self._intake.judged(run, error))
        except BaseException as error:
            run.outcome = self._outcomes.of_error(run, error)
        end_if_forked(self._forks)
        if not run.abandoned:
            if self._settings.events:
                run.note_facts(self._ahead_ms)
            if self._auditing is not None:
                await self._audit(self._auditing, run, [run])
            self._settle(run)
        self.in_flight.remove(run)

    def _start_directly(self, run: Run) -> bool:
        """Run a function in a thread or a process that has nothing around it, in two steps and
        without an asyncio task: the next is `_ended`. False if the run needs more than that."""
        if not self._direct or run.limited or isinstance(run, BatchRun):
            return False
        runner = run.task.declared.run_in
        if run.envelope.runner != runner and not self._may_begin_here(run):
            run.handed_back = True
            self.conclude(run, Released(runner))
            self.in_flight.give_slot()
            return True
        self.in_flight.mark_direct(run)
        if not self._watching:
            self._watch()
        self._runners.start_directly(run, self._ended)
        return True

    def _may_begin_here(self, run: Run) -> bool:
        return not self._policy.returns or self._runners.has_room_for(run)

    def _ended(self, run: Run, value: Any, error: BaseException | None) -> None:
        # Not `isinstance`: that asks the error, and a function's may lie or raise.
        if type(error) is BadArguments:
            self.in_flight.finish(self._judge(run, error, self._failed))
            return
        if not run.abandoned:
            run.outcome = self._outcomes.of_answer(run, value, error)
            if self._settings.events:
                run.note_facts(self._ahead_ms)
            self._settle(run)
        future = run.future
        if future is None:
            self.in_flight.remove_direct(run)
        elif not future.done():
            future.set_result(None)
            self.in_flight.remove_direct(run)

    def _failed(self, run: Run, error: BaseException) -> None:
        self._ended(run, None, error)

    async def _perform_batch(self, batch: BatchRun) -> None:
        """Run the function of jobs that run as one, and settle each."""
        self.in_flight.mark_running(batch)
        batch.refuse = self._refuse
        try:
            answers = values_of(batch, await self._enter(batch))
        except BaseException as error:
            answers = errors_of(batch, error)
        outcomes = self._outcomes.of_answers(batch.members, answers)
        end_if_forked(self._forks)
        runs: list[Run] = []
        for run, outcome in zip(batch.members, outcomes, strict=True):
            if not run.abandoned:
                run.outcome = outcome
                runs.append(run)
        if self._settings.events:
            batch.note_facts(self._ahead_ms)
        if self._auditing is not None and runs:
            await self._audit(self._auditing, batch, runs)
        for run in runs:
            self._settle(run)
        self.in_flight.remove(batch)

    async def _perform_manual(self, run: Run) -> None:
        """Run a function that settles its event itself, and may go on afterwards."""
        self.in_flight.mark_running(run)
        manual = ManualRun(run, self._enter)
        run.outcome = await manual.outcome(self._outcomes)
        end_if_forked(self._forks)
        if self._auditing is not None and not run.abandoned:
            await self._audit_manual(self._auditing, run)
        if not run.abandoned:
            run.abandoned = True
            if self._settings.events:
                run.note_facts(self._ahead_ms)
            self._settle(run)
        try:
            if manual.goes_on:
                with self.in_flight.outlasting(run):
                    await manual.rest(self._outcomes)
        finally:
            self.in_flight.remove(run)

    # The single steps

    def _enter(self, run: Run) -> Awaitable[Any]:
        """The function's result; it is entered right away, or when there is a place for it."""
        if not self._watching:
            self._watch()
        return self._runners.start(run, self._count_start)

    async def _audit(self, auditing: Auditing, whole: Run, runs: Sequence[Run]) -> None:
        """Have the members of `whole` recorded. They have ended, so nobody ends them meanwhile. One
        that cannot be recorded may get another outcome."""
        with self.in_flight.finishing(whole):
            outcomes = await auditing.outcomes(runs, [run.outcome for run in runs])
        for run, outcome in zip(runs, outcomes, strict=True):
            run.outcome = outcome

    async def _audit_manual(self, auditing: Auditing, run: Run) -> None:
        decided = run.outcome
        await self._audit(auditing, run, [run])
        # The function may go on, and be ended.
        self.in_flight.resume(run)
        if run.outcome is not decided and run.manual is not None:
            run.manual.written(AuditError(UNRECORDED))

    def _settle(self, run: Run) -> None:
        if self._runners.wrapped and run.delivery.on_outcome is not None:
            try:
                run.delivery.on_outcome(run.outcome)
            except Exception:
                log.exception("a when_settled callback of a middleware failed", extra=run.fields)
        self._policy.decided(run)

    # Other ways to an outcome

    def conclude(self, run: Run, outcome: Outcome) -> asyncio.Task[None] | None:
        """Settle a run whose function was not entered, or has not ended; whatever that returns is
        ignored. The task that records it first, if there is an audit."""
        run.outcome, run.abandoned = outcome, True
        if self._settings.events and hasattr(run, "envelope"):
            run.note_facts(self._ahead_ms)
        if self._auditing is None:
            self._settle(run)
            return None
        return self.in_flight.finish(self._settle_audited(self._auditing, run))

    async def _settle_audited(self, auditing: Auditing, run: Run) -> None:
        (run.outcome,) = await auditing.outcomes([run], [run.outcome])
        self._settle(run)

    def _turn_back(self, run: Run, error: BaseException) -> None:
        """End a run that the intake has refused."""
        if isinstance(error, BadArguments):
            self.in_flight.finish(self._judge(run, error, self._turn_back))
            return
        auditing = self.conclude(run, self._outcomes.of_error(run, error))
        if auditing is None:
            self.in_flight.give_slot()
        else:
            auditing.add_done_callback(lambda _: self.in_flight.give_slot())

    async def _judge(
        self, run: Run, error: BadArguments, go_on: Callable[[Run, BaseException], None]
    ) -> None:
        """Go on with what it means that the arguments do not fit."""
        means: BaseException
        try:
            means = await self._intake.judged(run, error)
        except BaseException as trouble:
            means = trouble
        go_on(run, means)

    def _refuse(self, run: Run, why: BaseException) -> None:
        """End a run that may not start: a limit is used up, or it has expired."""
        self.conclude(run, self._outcomes.of_error(run, why))

    def apply_control(self, queue: str, control: Control) -> None:
        """Apply the pauses and cancellations of a queue, to runs here and to later ones."""
        in_hand = self.stopper.apply_control(queue, control)
        self._intake.apply_control(queue, control, in_hand)

    def _watch(self) -> None:
        """One timer for all deadlines, there only while there are runs."""
        self._watching = True
        self._ahead_ms = self._settings.now_ms() - time.monotonic() * 1000
        self._loop.call_later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        self._watching = False
        self.stopper.sweep()
        if self.in_flight.running:
            self._watch()
