"""Ends runs before they end by themselves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from headrace.core.job.capacity import Runner
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import RELEASED, Outcome, task_gate
from headrace.store.values import Control
from headrace.worker.logs.leases import report_lost
from headrace.worker.run.batcher import BatchRun
from headrace.worker.run.in_flight import InFlight
from headrace.worker.run.manual_ack import why_too_late
from headrace.worker.run.outcomes import Outcomes
from headrace.worker.run.run import Run

log = logging.getLogger("headrace.worker")

_CANCEL_GRACE = 5.0


class Stopper:
    """Ends runs when the worker stops, a lease is lost, a job is cancelled, a task is paused, or
    time is up. A run under way is cancelled, and gets its outcome when it has ended. One that
    waits to begin, or one job of a batch, gets it at once."""

    def __init__(
        self,
        in_flight: InFlight,
        outcomes: Outcomes,
        conclude: Callable[[Run, Outcome], object],
        withdraw: Callable[[Run], bool],
        is_behind: Callable[[Run], bool],
        *,
        returns: bool = True,
        late_after: float,
    ) -> None:
        self._in_flight = in_flight
        self._outcomes = outcomes
        self._conclude = conclude
        self._withdraw_direct = withdraw
        self._is_behind = is_behind
        self._returns = returns
        self._late_after = late_after

    def hand_back(self, *, only_waiting: bool) -> None:
        """Hand back the jobs that have not begun, or all of them."""
        self._hand_back_waiting(self._in_flight.waiting())
        for run in tuple(self._in_flight.running):
            if not (run.has_begun and only_waiting) and not run.handed_back:
                self._hand_back(run, only_waiting=only_waiting)

    def _hand_back_waiting(self, runs: Iterable[Run]) -> None:
        for run in runs:
            run.handed_back = True
            self._withdraw(run)

    def _hand_back(self, run: Run, *, only_waiting: bool) -> None:
        for one in (run, *run.members):
            one.handed_back = True
        if self._withdrawn(run):
            return
        if only_waiting and run.is_direct:
            # It has just begun.
            run.handed_back = False
        else:
            self._end_running(run)

    def lose(self, deliveries: Sequence[LeasedDelivery]) -> None:
        """End the runs of jobs that another worker has now; their outcomes are not written."""
        gone, here = set(deliveries), []
        for run, batch_or_run in self._all():
            if run.delivery in gone and not run.lease_lost:
                run.lease_lost = True
                self._end(run, batch_or_run)
                here.append(run.delivery)
        report_lost(here)

    def apply_control(self, queue: str, control: Control) -> set[JobId]:
        """End the jobs that people have cancelled, and hold back those of paused tasks. Returns the
        cancelled ones that are here."""
        here: set[JobId] = set()
        if control.cancelling:
            here = self._cancel(queue, frozenset(control.cancelling))
        if control.paused_tasks:
            self._hold(queue, control.paused_tasks)
        if control.paused and self._returns:
            self._return(queue)
        return here

    def _cancel(self, queue: str, job_ids: Collection[JobId]) -> set[JobId]:
        here: set[JobId] = set()
        for run, batch_or_run in self._all():
            delivery = run.delivery
            if delivery.job_id in job_ids and delivery.queue == queue:
                here.add(delivery.job_id)
                if not run.cancelled:
                    run.cancelled = True
                    self._end(run, batch_or_run)
        return here

    def _hold(self, queue: str, tasks: Collection[str]) -> None:
        for run, batch_or_run in self._all():
            task = run.envelope.task
            if task in tasks and run.delivery.queue == queue and not run.has_begun:
                run.gate = task_gate(task)
                if run.is_direct and not self._withdrawn(run):
                    # It has just begun.
                    run.gate = ""
                elif not run.abandoned:
                    self._end(run, batch_or_run)

    def _return(self, queue: str) -> None:
        """Hand back the jobs of a paused queue that have not begun."""
        waiting = self._in_flight.waiting()
        self._hand_back_waiting(run for run in waiting if run.delivery.queue == queue)
        for run in tuple(self._in_flight.running):
            if run.delivery.queue == queue and not run.has_begun and not run.handed_back:
                self._hand_back(run, only_waiting=True)

    def abandon_all(self) -> None:
        """Hand back what did not end although it was cancelled."""
        for run in self._in_flight.running:
            self._abandon(run, lambda _: RELEASED)

    def sweep(self) -> None:
        """End runs that take too long, and give up those that ignore it. Hand back jobs that others
        may begin sooner."""
        now = time.monotonic()
        self._hand_back_late(now - self._late_after)
        for run in tuple(self._in_flight.running):
            if now < run.ends_at or run.abandoned:
                continue
            if not run.timed_out and not run.cancelled:
                self._time_out(run)
                continue
            if run.timed_out and run.task.declared.run_in == "thread" and not run.cancelled:
                self._leave_thread(run)
                continue
            log.warning("job %s ignores its cancellation", run.delivery.id_text, extra=run.fields)
            self._give_up(run)
            if run.task.declared.run_in == "process":
                # It had its time to clean up.
                run.kill()

    def _hand_back_late(self, before: float) -> None:
        """Hand back what has waited since before this time for a slot, a thread or a process, with
        all that waits behind it: here that would overtake it."""
        late_runners: set[Runner] = set()
        if self._returns:
            queued = [run for run in self._in_flight.running if self._is_queued(run)]
            late_runners = {_runner(run) for run in queued if run.queued_at < before}
            for run in queued:
                if _runner(run) in late_runners:
                    self._hand_back(run, only_waiting=True)
        self._hand_back_waiting(self._in_flight.overdue(before, late_runners))

    def _is_queued(self, run: Run) -> bool:
        """Whether it waits for a thread or a process behind others."""
        waits = run.queued_at and not run.handed_back and not run.has_begun
        return bool(waits) and self._is_behind(run)

    # How one run is ended

    def _all(self) -> Iterator[tuple[Run, Run | None]]:
        """Each job in hand, and the run under way that it is, or is part of."""
        for run in self._in_flight.waiting():
            yield run, None
        for batch_or_run in tuple(self._in_flight.running):
            for run in tuple(batch_or_run.members):
                if not run.abandoned:
                    yield run, batch_or_run

    def _end(self, run: Run, batch_or_run: Run | None) -> None:
        if batch_or_run is None:
            self._withdraw(run)
        elif isinstance(batch_or_run, BatchRun):
            self._end_in_batch(run, batch_or_run)
        elif not self._withdrawn(run):
            if run.cancelled and run.has_begun:
                run.ends_at = time.monotonic() + _CANCEL_GRACE
            self._end_running(run)

    def _withdraw(self, run: Run) -> None:
        self._in_flight.withdraw(run)
        self._conclude(run, self._cut_short(run))

    def _withdrawn(self, run: Run) -> bool:
        """Whether it still waited for a thread or a process, and has its outcome now."""
        if run.has_begun or not self._withdraw_direct(run):
            return False
        self._conclude(run, self._cut_short(run))
        self._in_flight.remove_direct(run)
        run.when_ended().cancel()
        return True

    def _end_in_batch(self, run: Run, batch: BatchRun) -> None:
        """The others go on; the function's answer for this one is ignored."""
        self._conclude(run, self._cut_short(run))
        if not batch.has_begun:
            batch.leave_out(run)
        if all(other.abandoned for other in batch.members):
            batch.cancelled = run.cancelled
            batch.ends_at = time.monotonic() + _CANCEL_GRACE
            self._end_running(batch)

    def _end_running(self, run: Run) -> None:
        run.end()
        run.when_ended().add_done_callback(partial(self._ended_without_outcome, run))

    def _ended_without_outcome(self, run: Run, future: asyncio.Future[None]) -> None:
        """The cancellation was not caught: the run's task has ended without an outcome."""
        if run in self._in_flight.running:
            for one in run.members:
                self._conclude(one, self._cut_short(one))
            self._in_flight.remove_direct(run)

    def _time_out(self, run: Run) -> None:
        """Tell a run to end. What its function then says counts, if it says it soon."""
        limit = run.timeout or 0.0
        for one in (run, *run.members):
            one.timed_out = limit
        run.ends_at = time.monotonic() + _CANCEL_GRACE
        if run.task.declared.run_in == "thread":
            run.context().cancel()
        else:
            self._end_running(run)

    def _leave_thread(self, run: Run) -> None:
        log.warning(
            "job %s (%s) timed out, but a thread cannot be stopped: its slot stays taken until "
            "the function returns; it can look at Context.cancelled, or use run_in='process'",
            *(run.delivery.id_text, run.task.name),
            extra=run.fields,
        )
        self._give_up(run)

    def _give_up(self, run: Run) -> None:
        self._abandon(run, lambda one: self._outcomes.of_error(one, TimeoutError()))

    def _abandon(self, run: Run, outcome_of: Callable[[Run], Outcome]) -> None:
        self._in_flight.outlast(run)
        for one in run.members:
            if not one.abandoned:
                if one.manual is not None:
                    one.manual.close(why_too_late(one))
                self._conclude(one, outcome_of(one))
        run.abandoned = True

    def _cut_short(self, run: Run) -> Outcome:
        return self._outcomes.of_error(run, asyncio.CancelledError())


def _runner(run: Run) -> Runner:
    return run.task.declared.run_in
