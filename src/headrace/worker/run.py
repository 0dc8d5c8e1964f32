"""One delivery on its way to an outcome."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from headrace.client.context import Context
from headrace.client.job import Job
from headrace.core.delivery import Delivery
from headrace.core.job import NO_PAST, Envelope, Past

if TYPE_CHECKING:
    from headrace.client.task import Task

_FOREVER = float("inf")


class Host:
    """What the runs of one worker have in common."""

    def __init__(self, worker: str, state: Any) -> None:
        self.worker = worker
        self.state = state


class Run:
    """What the executor's steps fill in and read."""

    envelope: Envelope
    task: Task[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    future: asyncio.Task[None]

    # On the hot path: what is the same for most runs stands here and is not set on each.
    past: Past = NO_PAST
    started = 0.0
    """By the monotonic clock; 0 until the task's function is entered."""
    ends_at = _FOREVER
    timed_out = False
    lease_lost = False
    sent_away = False
    """The worker stops and wants the job handed back."""
    abandoned = False
    """Settled although the function has not ended: what it returns is of no interest."""
    _context: Context | None = None

    def __init__(self, delivery: Delivery, host: Host) -> None:
        self.delivery = delivery
        self.host = host

    @property
    def has_begun(self) -> bool:
        return self.started > 0.0

    def begin(self) -> None:
        self.started = time.monotonic()
        if timeout := self.timeout:
            self.ends_at = self.started + timeout

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
            )
        return self._context

    @property
    def attempt(self) -> int:
        return len(self.past.attempts) + 1

    @property
    def fence(self) -> int:
        return self.past.deliveries + self.delivery.count

    @property
    def timeout(self) -> float | None:
        """Seconds that the run may take; None or 0 for as long as it likes."""
        override = self.envelope.overrides.timeout
        return self.task.declared.timeout if override is None else override

    def tell_to_end(self) -> None:
        """Cancel what can be cancelled; a thread is told, and may or may not listen."""
        if self._context is not None:
            self._context.cancel()
        self.future.cancel()
