"""One delivery on its way to an outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.context import NULL_REPORTER, Context, RunReporter
from headrace.client.delivery import Delivery, Fate
from headrace.client.job import Job
from headrace.client.subscription import Subscription
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import NO_OVERRIDES, Envelope
from headrace.core.job.history import NO_HISTORY, History

if TYPE_CHECKING:
    from headrace.client.task import Task
    from headrace.worker.run.store_reporter import StoreReporters

_FOREVER = float("inf")


class Host:
    """What the runs of one worker have in common. `admit` returns when the start of a run with
    limits is counted, or raises `NotNow`."""

    def __init__(
        self,
        worker: str,
        state: Any,
        admit: Callable[[Run], Awaitable[None]],
        reporters: StoreReporters | None = None,
    ) -> None:
        self.worker = worker
        self.state = state
        self.admit = admit
        self.reporters = reporters


class Run:
    """What the executor's steps fill in and read."""

    envelope: Envelope
    task: Task[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    future: asyncio.Task[None]

    # On the hot path: what is the same for most runs stands here and is not set on each.
    history: History = NO_HISTORY
    fed = b""
    """The first argument, encoded, if it is the result of other jobs."""
    limited = False
    """Whether its start must be counted by the store first."""
    alone = False
    """Whether one more worker that dies over it makes it dead: it must not take others along."""
    started = 0.0
    """By the monotonic clock; 0 until the task's function is entered."""
    ends_at = _FOREVER
    """When it has run too long or, if it was told to end, has ignored that for too long."""
    timed_out = 0.0
    """The seconds that it may take, once it has taken longer."""
    lease_lost = False
    cancelled = False
    """Someone cancelled the job."""
    gate = ""
    """The gate at which it must wait, found closed before it could begin."""
    sent_away = False
    """The worker stops and wants the job handed back."""
    abandoned = False
    """Settled although the function has not ended: what it returns is of no interest."""
    interrupt: Callable[[], None] | None = None
    """Of a function in a thread: raises `TaskCancelled` in it."""
    changed: bytes | None = None
    """Other arguments than were sent, encoded."""
    fate: Fate | None = None
    """Of an event that is settled by hand: where that is heard."""
    _context: Context | None = None

    def __init__(self, delivery: LeasedDelivery, host: Host) -> None:
        self.delivery = delivery
        self.host = host

    @property
    def members(self) -> Sequence[Run]:
        """The runs of single jobs that this is about: itself."""
        return (self,)

    @property
    def fields(self) -> dict[str, object]:
        """What a line in the log that speaks of it has as `extra`."""
        fields = {**self.delivery.fields, "attempt": self.attempt, "worker": self.host.worker}
        return {**fields, "task": self.task.name} if hasattr(self, "task") else fields

    @property
    def has_begun(self) -> bool:
        return self.started > 0.0

    def begin(self) -> None:
        self.started = time.monotonic()
        if timeout := self.timeout:
            self.ends_at = self.started + timeout

    def put_off_end(self, starting: float = 0.0) -> None:
        """Count its time from now on, or from so many seconds later; not if it was told to end."""
        if self.timeout and not self.timed_out and not self.cancelled:
            self.ends_at = time.monotonic() + self.timeout + starting

    def context(self) -> Context:
        if self._context is None:
            delivery = self.delivery
            self._context = Context(
                Job(self.task.app, delivery.key, delivery.queue, self.task.signature.returns),
                self.attempt,
                self.host.worker,
                self.fence,
                self.host.state,
                None if self.ends_at == _FOREVER else self.ends_at,
                self.envelope.overrides.headers,
                self.reporter(),
                self.handle(),
            )
        return self._context

    def handle(self) -> Delivery | None:
        """The event at hand, as its handler sees it; None for a job."""
        if not isinstance(self.task, Subscription):
            return None
        fence = self.fence
        return self.task.delivery(
            self.envelope,
            attempt=self.attempt,
            fence=fence,
            redelivered=fence > 1,
            fate=self.fate,
        )

    def let_go(self) -> None:
        """Leave the event's handle to whoever else has it: when nobody has, nobody can say any more
        what became of the event."""
        self._context = None

    def reporter(self) -> RunReporter:
        reporters = self.host.reporters
        return (
            NULL_REPORTER
            if reporters is None
            else reporters.of(self.delivery.queue, self.delivery.key)
        )

    def use(self, context: Context) -> None:
        """Let the function have this context."""
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
    def payload(self) -> bytes:
        """The arguments, encoded, as a process is given them."""
        return self.envelope.payload if self.changed is None else self.changed

    @property
    def keeps_result(self) -> bool:
        """Whether anyone will want what the function returns."""
        return bool(self.task.declared.result_ttl or self.envelope.overrides.flow)

    def tell_to_end(self) -> None:
        """Cancel what can be cancelled; a thread is told, and may or may not listen."""
        if self._context is not None:
            self._context.cancel()
        if self.cancelled and self.interrupt is not None:
            self.interrupt()
        self.future.cancel()


# So that all runs share one layout, as in core/job/delivery.py.
_first = Run.__new__(Run)
for _name in ("delivery", "host", "envelope", "task", "args", "kwargs", "future"):
    setattr(_first, _name, None)
for _name in ("history", "started", "ends_at", "timed_out", "abandoned", "_context"):
    setattr(_first, _name, getattr(Run, _name))


class BatchRun(Run):
    """Several jobs of a batch task that run as one. Its context is that of the first of them."""

    _timeout = _FOREVER

    def __init__(self, members: Sequence[Run]) -> None:
        first = members[0]
        super().__init__(first.delivery, first.host)
        self.envelope = first.envelope
        self.task = first.task
        self.history = first.history
        self.kwargs = {}
        self.limited = any(member.limited for member in members)
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
        items: list[Any] = []
        self._timeout = self.task.declared.timeout or _FOREVER
        started = self.started = time.monotonic()
        for member in self._members:
            member.started = started
            items.append(member.args[0])
            if member.envelope.overrides is not NO_OVERRIDES:
                self._timeout = min(self._timeout, member.timeout or _FOREVER)
        self.ends_at = started + self._timeout
        self.args = (items,)

    @property
    def timeout(self) -> float | None:
        """That of the most impatient of its jobs."""
        return None if self._timeout == _FOREVER else self._timeout
