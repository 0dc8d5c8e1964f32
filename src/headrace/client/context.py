"""What a running task can know of its own run."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.job import Job


class Context:
    """The run at hand. A parameter annotated `Context` is filled with it; `current()` gives it too.

    `fence` grows whenever the job is taken from a worker that may still be at it: hand it to
    outside systems that can refuse an older one, and a worker that slept through its lease can do
    no harm there. `state` is what the
    app's lifespan yielded; None in a process of its own.
    """

    __slots__ = ("_cancelled", "_ends_at", "attempt", "fence", "headers", "job", "state", "worker")

    def __init__(
        self,
        job: Job[Any],
        attempt: int,
        worker: str,
        fence: int,
        state: Any = None,
        ends_at: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.job = job
        self.attempt = attempt
        self.worker = worker
        self.fence = fence
        self.state = state
        self.headers: Mapping[str, str] = headers or {}
        self._ends_at = ends_at
        self._cancelled = threading.Event()

    @property
    def deadline(self) -> datetime | None:
        """When the run times out; None if it may take as long as it likes."""
        if self._ends_at is None:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._ends_at - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether the run was told to end: it timed out, or its worker stops. Async tasks are
        cancelled by themselves; a task in a thread should look here now and then."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Tell the run to end; called by the worker."""
        self._cancelled.set()


class Running(Protocol):
    """What can make a context when someone asks for it: most tasks never do."""

    def context(self) -> Context: ...


running: ContextVar[Running | None] = ContextVar("headrace_running", default=None)


def current() -> Context:
    """The context of the task that calls this."""
    run = running.get()
    if run is None:
        raise HeadraceError("current() was called outside of a running task")
    return run.context()
