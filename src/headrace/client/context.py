"""The context of a run: what a running task can know and report."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from headrace.client.once import Once, OnceMarkers
from headrace.client.send.flow_adder import FlowAdder
from headrace.core.job.progress import check_fraction, check_text, clean_line
from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.client.job import Job
    from headrace.client.topic.delivery import Delivery

T = TypeVar("T")


class RunReporter(OnceMarkers, Protocol):
    """Reports progress, logs and once markers of one run, wherever it runs; thread-safe. Progress
    and logs are written soon, without waiting and without failing; markers are written at once."""

    def progress(self, fraction: float, text: str) -> None: ...
    def log(self, line: str) -> None: ...


class NullReporter:
    """The reporter of a context that no worker made: it writes nothing and remembers nothing."""

    def progress(self, fraction: float, text: str) -> None: ...

    def log(self, line: str) -> None: ...

    async def recall(self, name: str) -> bytes | None:
        return None

    async def remember(self, name: str, value: bytes) -> None: ...

    def recall_sync(self, name: str) -> bytes | None:
        return None

    def remember_sync(self, name: str, value: bytes) -> None: ...


NULL_REPORTER = NullReporter()


class ProgressReport:
    """Reports how far a job is: called with a part from 0 to 1, or in steps. From any thread of the
    function, one at a time."""

    __slots__ = ("_reporter", "_so_far")

    def __init__(self, reporter: RunReporter) -> None:
        self._reporter = reporter
        self._so_far = 0.0

    def __call__(self, fraction: float, text: str = "") -> None:
        self._so_far = check_fraction(fraction)
        self._reporter.progress(self._so_far, check_text(text))

    def increment(self, by: float, text: str = "") -> None:
        """Report that much more than the last time in this run."""
        self(min(self._so_far + check_fraction(by, "increment"), 1.0), text)


class Context:
    """The current run. A parameter annotated `Context` is filled with it; `current()` returns it
    too.

    `fence` grows whenever the job is taken from a worker that may still be running it: pass it to
    outside systems that can refuse an older one, and a worker that outlived its lease can do no
    harm there. `state` is what the app's lifespan yielded, or in a process of its own what its
    `process_lifespan` did.
    """

    __slots__ = (
        "_cancelled", "_ends_at", "_flow", "_progress", "_reporter",
        "attempt", "delivery", "fence", "headers", "job", "state", "worker",
    )  # fmt: skip

    def __init__(
        self,
        job: Job[Any],
        attempt: int,
        worker: str,
        fence: int,
        state: Any = None,
        ends_at: float | None = None,
        headers: Mapping[str, str] | None = None,
        reporter: RunReporter = NULL_REPORTER,
        delivery: Delivery | None = None,
    ) -> None:
        self.job = job
        """The handle of this job."""
        self.delivery = delivery
        """The event that a subscription handles, with its metadata; None in the run of a job or of
        a batch."""
        self.attempt = attempt
        """1 for the first run, plus one after each failure."""
        self.worker = worker
        """The worker's name."""
        self.fence = fence
        """Grows with every delivery of the job: an outside system that refuses lower
        numbers is safe from a worker that outlived its lease."""
        self.state = state
        """What the app's lifespan yielded."""
        self.headers: Mapping[str, str] = headers or {}
        """As sent."""
        self._ends_at = ends_at
        self._cancelled = threading.Event()
        self._reporter = reporter
        self._flow: FlowAdder | None = None
        self._progress: ProgressReport | None = None

    @property
    def queue(self) -> str:
        """The queue of the job; for an event the queue of its group, for example `billing@orders`,
        or `billing@orders#1` in another shard. Empty outside of a worker."""
        return self.job._queue or ""

    @property
    def progress(self) -> ProgressReport:
        """Report progress from 0 to 1, for `job.progress()` and `job.watch()`: `ctx.progress(0.4,
        "half way")`, or in steps with `ctx.progress.increment(0.1)`. Cheap, and does not wait: of
        many reports in a short time, the latest is written."""
        if self._progress is None:
            self._progress = ProgressReport(self._reporter)
        return self._progress

    def log(self, text: str) -> None:
        """Add a line to the job's log, for `job.log()` and `job.watch()`, which keeps the last
        1,000 of up to 4,096 characters. Does not wait.

        Args:
            text: One line.
        """
        self._reporter.log(clean_line(text))

    @overload
    def once(self, name: str) -> Once[Any]: ...
    @overload
    def once(self, name: str, kind: type[T]) -> Once[T]: ...
    def once(self, name: str, kind: Any = Any) -> Once[Any]:
        """A block that is done once per job across its attempts, with a value of type `kind`: see
        `Once`.

        Args:
            name: What the block does, such as "charge"; one name for each block of the function.
            kind: The type of its value; anything unless said.
        """
        return Once(self._reporter, name, kind, self.job._app.max_payload)

    @property
    def flow(self) -> FlowAdder:
        """The flow that the job belongs to, to which it can add jobs: `await ctx.flow.add(call)`,
        or `ctx.flow.add_sync(call)` in threads and processes."""
        if self._flow is None:
            self._flow = FlowAdder(self.job)
        return self._flow

    @property
    def deadline(self) -> datetime | None:
        """When the run times out; None if it has no limit."""
        if self._ends_at is None:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._ends_at - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether the run should end: the job was cancelled or timed out, or its worker stops.
        Async tasks are cancelled anyway; one in a thread should check this now and then."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ask the run to end; called by the worker."""
        self._cancelled.set()


class CurrentRun(Protocol):
    """Makes a context on demand: most tasks never ask for one."""

    def context(self) -> Context: ...


running: ContextVar[CurrentRun | None] = ContextVar("headrace_running", default=None)


def current() -> Context:
    """The context of the task that calls this."""
    run = running.get()
    if run is None:
        raise HeadraceError("current() was called outside of a running task")
    return run.context()


def needs_context(what: str) -> ConfigError:
    """The error of a direct call, where there is no context to fill in."""
    return ConfigError(
        f"{what} takes a Context, which there is only in a worker: to call it here, give it one "
        "made by headrace.testing.context()"
    )
