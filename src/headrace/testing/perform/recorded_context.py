"""A context that no worker made, and that remembers what the function reported."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Token
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.client.context import NULL_REPORTER, Context, CurrentRun, RunReporter, running
from headrace.client.job import Job
from headrace.client.send.flow_adder import FlowAdder
from headrace.core import codec
from headrace.core.bounds import check_count
from headrace.core.clock import to_ms
from headrace.core.job import ids
from headrace.core.task.call import Call

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.client.topic.delivery import Delivery

R = TypeVar("R")


class RecordingReporter:
    """The reporter of a run in a test: keeps what a worker would write to the store."""

    def __init__(self) -> None:
        self.reports: list[tuple[float, str]] = []
        self.lines: list[str] = []
        self.markers: dict[str, bytes] = {}

    def progress(self, fraction: float, text: str) -> None:
        self.reports.append((fraction, text))

    def log(self, line: str) -> None:
        self.lines.append(line)

    async def recall(self, name: str) -> bytes | None:
        return self.markers.get(name)

    async def remember(self, name: str, value: bytes) -> None:
        self.markers[name] = value

    def recall_sync(self, name: str) -> bytes | None:
        return self.markers.get(name)

    def remember_sync(self, name: str, value: bytes) -> None:
        self.markers[name] = value


class RecordedFlow(FlowAdder):
    """The flow of a job that is in no store: what is added is kept here, and not sent."""

    def __init__(self, job: Job[Any]) -> None:
        super().__init__(job)
        self.added: list[Call[Any]] = []
        """The calls that the function added, in order."""

    async def add(self, call: Call[R]) -> Job[R]:
        call = await self._checked(call)
        self.added.append(call)
        return Job(self._app, self._id_of(call), call.queue, call.returns)


class RecordedContext(Context):
    """A `Context` for tests: `reported`, `logged`, `once_values` and `flow.added` say what the
    function did with it. `with` makes it the one that `current()` returns."""

    __slots__ = ("_record", "_recorded_flow", "_token")

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
        record = reporter if isinstance(reporter, RecordingReporter) else RecordingReporter()
        super().__init__(job, attempt, worker, fence, state, ends_at, headers, record, delivery)
        self._record = record
        self._recorded_flow = RecordedFlow(job)
        self._token: Token[CurrentRun | None] | None = None

    @property
    def reported(self) -> list[tuple[float, str]]:
        """Part and text of each `ctx.progress(...)`."""
        return self._record.reports

    @property
    def logged(self) -> list[str]:
        """The line of each `ctx.log(...)`."""
        return self._record.lines

    @property
    def once_values(self) -> dict[str, Any]:
        """The blocks of `ctx.once(...)` that were done, by name, with their values."""
        decode = codec.decoder(Any)
        return {name: decode(data) for name, data in self._record.markers.items()}

    @property
    def flow(self) -> RecordedFlow:
        """Takes what the function adds to its flow; `flow.added` lists it."""
        return self._recorded_flow

    def context(self) -> RecordedContext:
        """Itself: for `current()`."""
        return self

    def __enter__(self) -> RecordedContext:
        self._token = running.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            running.reset(self._token)


def context(
    app: Headrace | None = None,
    *,
    attempt: int = 1,
    headers: Mapping[str, str] | None = None,
    state: Any = None,
    id: str | None = None,
    queue: str = "default",
    worker: str = "test",
    fence: int | None = None,
    timeout: float | timedelta | None = None,
    once: Mapping[str, Any] | None = None,
    delivery: Delivery | None = None,
) -> RecordedContext:
    """A context for the direct call of a function: `await send_mail(context(attempt=2), "ada")`.
    `state` is what the app's lifespan would yield, `once` has values of blocks that an earlier
    attempt has done, by name, `timeout` gives it a deadline. Its job is in no store.

    Args:
        app: The app; none unless said.
        attempt: Number of the run, from 1.
        headers: Texts by name, as if sent with them.
        state: What the lifespan yielded.
        id: The id of the job.
        queue: The queue that it came from.
        worker: The worker's name.
        fence: Grows with every delivery of the job.
        timeout: Seconds until `deadline`; none unless said.
        once: Values of blocks that earlier attempts have completed, by name.
        delivery: Of an event.
    """
    check_count("context(attempt=)", attempt)
    record = RecordingReporter()
    record.markers = {name: codec.encode(value) for name, value in (once or {}).items()}
    seconds = None if timeout is None else to_ms("context(timeout=)", timeout) / 1000
    return RecordedContext(
        Job(_some_app() if app is None else app, ids.to_id(id) if id else ids.new_id(), queue),
        attempt,
        worker,
        attempt if fence is None else fence,
        state,
        None if seconds is None else monotonic() + seconds,
        dict(headers or {}),
        record,
        delivery,
    )


def _some_app() -> Headrace:
    """For the context of a function that does not ask its app for anything."""
    from headrace.app import Headrace

    return Headrace("memory://")
