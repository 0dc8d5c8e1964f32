"""Turns one delivery into one outcome, and writes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core import codec
from headrace.core.delivery import Delivery
from headrace.core.job import (
    Malformed,
    NewerFormat,
    Reason,
    decode_envelope,
    decode_past,
    done_verdict,
    peek_key,
)
from headrace.core.judgement import FailedRun, Unfit, judge
from headrace.core.limits import MAX_ENVELOPE_BESIDE_PAYLOAD, RESULT_TTL
from headrace.core.outcome import DONE, RELEASED, Done, Outcome
from headrace.core.retry import Retry
from headrace.core.signature import Misfit
from headrace.errors import LeaseLost
from headrace.worker.run import Host, Run
from headrace.worker.runners import Encoded, Runners, forks

if TYPE_CHECKING:
    from headrace.client.task import Task

log = logging.getLogger("headrace.worker")

_SWEEP = 0.05
_CANCEL_GRACE = 5.0

Settle = Callable[[Delivery, Outcome], None]


class Executor:
    """Runs deliveries side by side. `settle` is called once for each, `free` when its slot may be
    used again, which for a thread that will not end is later."""

    def __init__(
        self,
        tasks: Mapping[str, Task[..., Any]],
        runners: Runners,
        settle: Settle,
        free: Callable[[], None],
        *,
        worker: str,
        state: Any,
        crash_limit: int,
        max_payload: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._tasks = tasks
        self._runners = runners
        self._settle = settle
        self._free = free
        self._host = Host(worker, state)
        self._crash_limit = crash_limit
        self._max_payload = max_payload
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._sweeping = False
        self._forks = forks()
        self.runs: set[Run] = set()

    def start(self, delivery: Delivery) -> None:
        run = Run(delivery, self._host)
        self.runs.add(run)
        # Not loop.create_task, which makes up a name for each; this is called once per job.
        run.future = asyncio.Task(self._work(run), loop=self._loop, name="headrace-job")

    async def execute(self, run: Run) -> Outcome:
        """The steps of every job, in order."""
        try:
            self._decode(run)
            self._resolve(run)
            self._admit(run)
            value = await self._start(run)
            return self._conclude(run, value)
        except BaseException as error:
            return self._judged(run, error)

    async def _work(self, run: Run) -> None:
        outcome = await self.execute(run)
        if forks() != self._forks:
            # The handler forked and its child came back here: the job belongs to the parent.
            os._exit(0)
        self.runs.discard(run)
        if not run.abandoned:
            self._settle(run.delivery, outcome)
        self._free()

    def _decode(self, run: Run) -> None:
        delivery = run.delivery
        if len(delivery.envelope) > self._max_payload + MAX_ENVELOPE_BESIDE_PAYLOAD:
            delivery.key = peek_key(delivery.envelope)
            raise Unfit(Reason.OVERSIZE, f"the job has {len(delivery.envelope):,} bytes")
        try:
            run.envelope = decode_envelope(delivery.envelope)
        except (NewerFormat, Malformed) as error:
            delivery.key = peek_key(delivery.envelope)
            newer = isinstance(error, NewerFormat)
            raise Unfit(Reason.NEWER_FORMAT if newer else Reason.MALFORMED, str(error)) from None
        delivery.key = run.envelope.key
        if delivery.past:
            run.past = decode_past(delivery.past)

    def _resolve(self, run: Run) -> None:
        task = self._tasks.get(run.envelope.task)
        if task is None:
            raise Unfit(
                Reason.UNKNOWN_TASK,
                f"this worker's app has no task {run.envelope.task!r}; it has "
                f"{', '.join(sorted(self._tasks)) or 'none'}",
            )
        run.task = task
        if task.declared.run_in != "process":
            try:
                run.args, run.kwargs = task.signature.decode(run.envelope.payload)
            except Misfit as error:
                raise Unfit(Reason.BAD_ARGUMENTS, str(error)) from None

    def _admit(self, run: Run) -> None:
        if run.delivery.count > 1 or run.past.crashes:
            self._stop_crash_loop(run)
        expires_ms = run.envelope.overrides.expires_ms
        if expires_ms is not None and self._now_ms() >= expires_ms:
            raise Unfit(Reason.EXPIRED, "the job expired before it could be started")

    def _stop_crash_loop(self, run: Run) -> None:
        crashes = run.past.crashes + run.delivery.count - 1
        if crashes >= self._crash_limit:
            raise Unfit(
                Reason.CRASH_LOOP,
                f"{crashes} workers died or lost their lease while they ran this job",
            )

    def _start(self, run: Run) -> Awaitable[Any]:
        if not self._sweeping:
            self._watch_deadlines()
        return self._runners.start(run)

    def _conclude(self, run: Run, value: Any) -> Outcome:
        if run.timed_out:
            raise TimeoutError(_too_long(run))
        ttl = run.task.declared.result_ttl
        if not ttl:
            return DONE
        data = value.data if isinstance(value, Encoded) else encoded_result(run.task, value)
        if len(data) > self._max_payload:
            raise Unfit(
                Reason.BAD_RESULT,
                f"the result takes {len(data):,} bytes, the limit is {self._max_payload:,}; "
                "return a reference to the data instead, or raise max_payload",
            )
        return Done(done_verdict(data), int(ttl * 1000))

    def _judged(self, run: Run, error: BaseException) -> Outcome:
        """Whatever happens, there is an outcome: an error that cannot be judged is replaced."""
        try:
            return self._judge(run, error)
        except Exception as trouble:
            log.exception("the error of job %s cannot be judged", run.delivery.key_text)
            named = f"{type(error).__name__}, which could not be judged: {type(trouble).__name__}"
            return self._judge(run, RuntimeError(f"the task raised {named}"))

    def _judge(self, run: Run, error: BaseException) -> Outcome:
        if run.sent_away and not isinstance(error, Unfit):
            # Whatever a task raises when it is cut short, being cut short was not its fault.
            return RELEASED
        if run.lease_lost:
            error = LeaseLost(f"another worker has job {run.delivery.key_text} now")
        elif run.timed_out:
            error = TimeoutError(_too_long(run)).with_traceback(error.__traceback__)
        ended = time.monotonic()
        ended_ms = self._now_ms()
        spent_ms = int((ended - run.started) * 1000) if run.has_begun else 0
        retry, ttl = _policy(run)
        return judge(
            FailedRun(
                error=error,
                past=run.past,
                delivered=run.delivery.count,
                started_ms=ended_ms - spent_ms,
                ended_ms=ended_ms,
                worker=self._host.worker,
                retry=retry,
                result_ttl_ms=int(ttl * 1000),
            )
        )

    # Ending runs before they end by themselves

    def send_away(self, *, only_waiting: bool) -> None:
        """Hand back the jobs that have not begun, or all of them."""
        for run in tuple(self.runs):
            if not (only_waiting and run.has_begun) and not run.sent_away:
                run.sent_away = True
                run.tell_to_end()

    def lose(self, deliveries: Sequence[Delivery]) -> None:
        """End the runs of jobs that another worker has now: whatever they do is not recorded."""
        gone = set(deliveries)
        for run in tuple(self.runs):
            if run.delivery in gone and not run.lease_lost:
                run.lease_lost = True
                run.tell_to_end()
                log.warning("lease lost while job %s was running here", run.delivery.key_text)

    def abandon_all(self) -> None:
        """Hand back what did not end although it was cancelled."""
        for run in self.runs:
            self._abandon(run, RELEASED)

    def sweep(self) -> None:
        """End the runs that take too long."""
        now = time.monotonic()
        for run in tuple(self.runs):
            if now < run.ends_at or run.abandoned:
                continue
            if not run.timed_out:
                self._time_out(run)
            elif now > run.ends_at + _CANCEL_GRACE:
                log.warning("job %s ignores its cancellation", run.delivery.key_text)
                self._abandon(run, self._judged(run, TimeoutError()))

    def _time_out(self, run: Run) -> None:
        run.timed_out = True
        if run.task.declared.run_in != "thread":
            run.tell_to_end()
            return
        run.context().cancel()
        log.warning(
            "job %s (%s) timed out, but a thread cannot be stopped: its slot stays taken until "
            "the function returns; it can look at Context.cancelled, or use run_in='process'",
            run.delivery.key_text,
            run.task.name,
        )
        self._abandon(run, self._judged(run, TimeoutError()))

    def _abandon(self, run: Run, outcome: Outcome) -> None:
        if not run.abandoned:
            run.abandoned = True
            self._settle(run.delivery, outcome)

    def _watch_deadlines(self) -> None:
        """One timer for all runs, there only while there are any."""
        self._sweeping = True
        self._loop.call_later(_SWEEP, self._sweep_again)

    def _sweep_again(self) -> None:
        self._sweeping = False
        self.sweep()
        if self.runs:
            self._watch_deadlines()


def encoded_result(task: Task[..., Any], value: Any) -> bytes:
    """What a task returned, as bytes; unfit if it cannot travel: running again would not help."""
    try:
        return codec.encode(value)
    except codec.ENCODE_ERRORS as error:
        raise Unfit(
            Reason.BAD_RESULT,
            f"task {task.name!r} returned a {type(value).__name__} that cannot travel: {error}",
        ) from None


def _too_long(run: Run) -> str:
    return f"the job ran longer than its timeout of {run.timeout:g} s"


def _policy(run: Run) -> tuple[Retry, float]:
    """The retry policy and result time of a run that may have failed before its task was known."""
    try:
        override = run.envelope.overrides.retry
        declared = run.task.declared
    except AttributeError:
        return Retry(), RESULT_TTL
    return override.policy() if override else declared.retry, declared.result_ttl
