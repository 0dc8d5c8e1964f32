"""One delivery on its way to an outcome."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.context import NULL_REPORTER, Context, RunReporter
from headrace.client.job import Job
from headrace.client.topic.delivery import Delivery
from headrace.client.topic.manual_settlement import ManualSettlement
from headrace.client.topic.subscription import Subscription
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import Envelope
from headrace.core.job.failure import expired
from headrace.core.job.history import NO_HISTORY, History, deaths
from headrace.core.job.outcome import Outcome
from headrace.worker.processes.run_place import ProcessRuns, RunPlace
from headrace.worker.run.run_settings import RunSettings

if TYPE_CHECKING:
    from headrace.client.task import Task
    from headrace.worker.threads.interruption import Interruptible

_FOREVER = float("inf")
# One for all runs: few ask for a context in a thread while they are being ended.
_context_lock = threading.Lock()


class Run:
    """One delivery on its way to an outcome: what the executor's steps fill in and read."""

    # On the hot path: defaults stand on the class, so that most runs need not set them.

    # Filled in by the intake
    envelope: Envelope
    history: History = NO_HISTORY
    task: Task[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    first_argument = b""
    """The first argument, encoded, if it is the result of other jobs."""
    limited = False
    """Whether its start must be counted by the store first."""
    on_last_chance = False
    """Whether one more crash makes it dead: a batch must not share that."""

    # Filled in when it begins
    future: asyncio.Future[None] | None = None
    """The task in which it runs, if it has one; see `when_ended`."""
    queued_at = 0.0
    """When it began to wait for a thread or a process; 0 if it does not wait for one."""
    thread_call: Interruptible | None = None
    """Its call, if the function runs in a thread with nothing around it."""
    started = 0.0
    """By the monotonic clock; 0 until the task's function is entered."""
    ended = 0.0
    """When the function ended, if that was before its outcome is known here; else 0."""
    process: RunPlace | None = None
    """The process that has it, and begins it when it is its turn."""
    processes: ProcessRuns | None = None
    """All runs of processes, if its function runs in one with nothing around it."""
    ends_at = _FOREVER
    """Its deadline: of its timeout or, after a cancellation, of the grace."""
    manual: ManualSettlement | None = None
    """Where the outcome of an event is decided that its function settles."""
    thread_function: Interruptible | None = None
    """Its call, if the function runs in a thread with something around it."""
    changed: bytes | None = None
    """The arguments as a middleware changed them, encoded."""
    result_is_seen = False
    """Whether middleware sees the result of a function in a process, also if it is not kept."""
    _context: Context | None = None

    # Set by the stopper: that it ends early, and why
    ending = False
    lease_lost = False
    cancelled = False
    """Someone cancelled the job."""
    gate = ""
    """The gate at which it must wait, found closed before it could begin."""
    handed_back = False
    """The worker stops and hands the job back."""
    timed_out = 0.0
    """Its timeout in seconds, set once that has passed; else 0."""

    # Set by the executor
    outcome: Outcome
    abandoned = False
    """Settled before its function has ended: what that returns is ignored."""

    def __init__(self, delivery: LeasedDelivery, settings: RunSettings) -> None:
        self.delivery = delivery
        self.settings = settings

    @property
    def members(self) -> Sequence[Run]:
        """The runs of single jobs that this is about: itself."""
        return (self,)

    @property
    def fields(self) -> dict[str, object]:
        """The `extra` of log records about it."""
        fields = {**self.delivery.fields, "attempt": self.attempt, "worker": self.settings.worker}
        return {**fields, "task": self.task.name} if hasattr(self, "task") else fields

    @property
    def has_begun(self) -> bool:
        if self.started <= 0.0 and self.process is not None:
            self.process.look()
        return self.started > 0.0

    def begin(self) -> None:
        """Right before the function is entered: refuse what has expired meanwhile, and note when
        it starts and when its timeout is over."""
        overrides = self.envelope.overrides
        if overrides.expires_ms is not None:
            self.check_expiry()
        self.started = started = time.monotonic()
        if timeout := self.timeout:
            self.ends_at = started + timeout

    def check_expiry(self) -> None:
        """Raise if the job should have started before."""
        expires_ms = self.envelope.overrides.expires_ms
        if expires_ms is not None and self.settings.now_ms() >= expires_ms:
            raise expired()

    def start_clock_at(self, started: float, preparing: float = 0.0) -> None:
        """Note when a function in a process was entered, and when its timeout is over; `preparing`
        is time for it to be imported. A run that is being ended keeps its deadline."""
        self.started = started
        if (timeout := self.timeout) and not self.timed_out and not self.cancelled:
            self.ends_at = started + timeout + preparing

    def context(self) -> Context:
        """Made when it is first asked for, on the loop or in the function's thread."""
        if self._context is None:
            with _context_lock:
                if self._context is None:
                    self._context = self._make_context()
                    if self.ending:
                        self._context.cancel()
        return self._context

    def _make_context(self) -> Context:
        delivery = self.delivery
        return Context(
            Job(self.task.app, delivery.job_id, delivery.queue, self.task.signature.returns),
            self.attempt,
            self.settings.worker,
            self.fence,
            self.settings.state,
            None if self.ends_at == _FOREVER else self.ends_at,
            self.envelope.overrides.headers,
            self.reporter(),
            self.handle(),
        )

    def handle(self) -> Delivery | None:
        """The event at hand, as its handler sees it; None for a job."""
        if not isinstance(self.task, Subscription):
            return None
        return self.task.delivery(
            self.envelope,
            attempt=self.attempt,
            fence=self.fence,
            deaths=deaths(self.history),
            queue=self.delivery.queue,
            manual=self.manual,
        )

    def let_go(self) -> None:
        """Drop the event's handle: unless others have it, nobody can settle the event any more."""
        self._context = None

    def reporter(self) -> RunReporter:
        reporter_of = self.settings.reporter_of
        if reporter_of is None:
            return NULL_REPORTER
        return reporter_of(self.delivery.queue, self.delivery.job_id)

    def use(self, context: Context) -> None:
        """Give the function this context."""
        self._context = context

    @property
    def attempt(self) -> int:
        return len(self.history.attempts) + 1

    @property
    def fence(self) -> int:
        return self.history.deliveries + self.delivery.count

    @property
    def timeout(self) -> float | None:
        """Seconds that the run may take; None or 0 for as long as it likes."""
        override = self.envelope.overrides.timeout
        return self.task.declared.timeout if override is None else override

    @property
    def headers(self) -> dict[str, str]:
        """The headers, as a process is given them."""
        context = self._context
        return self.envelope.overrides.headers if context is None else dict(context.headers)

    @property
    def payload(self) -> bytes:
        """The arguments, encoded, as a process is given them."""
        return self.envelope.payload if self.changed is None else self.changed

    def encode_again(self) -> None:
        """Encode the arguments again, as middleware left them."""
        self.changed, self.first_argument = self.task.signature.encode(self.args, self.kwargs), b""

    @property
    def is_direct(self) -> bool:
        """Whether its function runs in a thread or a process with nothing around it."""
        return self.thread_call is not None or self.processes is not None

    def when_ended(self) -> asyncio.Future[None]:
        """Done when it has ended. On the loop. Few runs without a task are waited for."""
        if self.future is None:
            self.future = asyncio.get_running_loop().create_future()
        return self.future

    def kill(self) -> None:
        """End a run in a process that does not end by itself."""
        if self.processes is not None:
            self.processes.kill(self)
        else:
            self.when_ended().cancel()

    def end(self) -> None:
        """Cancel it. A thread cannot be cancelled: it can only be asked to end."""
        with _context_lock:
            self.ending = True
            if self._context is not None:
                self._context.cancel()
        if self.cancelled and (function := self.thread_call or self.thread_function):
            function.interrupt()
        if self.processes is not None:
            asked = self.cancelled or self.timed_out
            end = self.processes.terminate if asked else self.processes.kill
            end(self)
        elif self.thread_call is None or self.handed_back:
            self.when_ended().cancel()

    # What goes with its outcome into the record of events

    def note_task(self) -> None:
        self.delivery.task = self.envelope.task

    def note_facts(self, ahead_ms: float) -> None:
        """`ahead_ms` is how far the store's clock is ahead of the monotonic one."""
        delivery, started = self.delivery, self.started
        delivery.task = self.envelope.task
        if started:
            delivery.attempt = 1 if self.history is NO_HISTORY else self.attempt
            delivery.started_ms = int(started * 1000 + ahead_ms)
            delivery.took_us = int(((self.ended or time.monotonic()) - started) * 1_000_000)


# So that all runs share one layout, as in core/job/delivery.py.
_first = Run.__new__(Run)
for _name in ("delivery", "settings", "envelope", "task", "args", "kwargs", "future", "outcome"):
    setattr(_first, _name, None)
for _name in ("history", "started", "ends_at", "timed_out", "abandoned", "_context"):
    setattr(_first, _name, getattr(Run, _name))
