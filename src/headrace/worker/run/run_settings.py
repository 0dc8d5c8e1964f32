"""What all runs of a worker share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.client.context import RunReporter
from headrace.client.fallback import Fallback
from headrace.core.job.ids import JobId
from headrace.core.job.outcome import Outcome
from headrace.core.task.process_lifespan import START_TIMEOUT
from headrace.worker.logs.failure_log import FailureLog
from headrace.worker.logs.unknown_log import UnknownLog
from headrace.worker.run.other_declarations import OtherDeclarations


class RunSettings(msgspec.Struct, frozen=True):
    """What all consumer loops of a worker share; how they differ is their `AckPolicy`."""

    worker: str
    """The worker's name."""
    state: Any
    """What the app's lifespan yielded."""
    crash_limit: int
    max_payload: int
    now_ms: Callable[[], int]
    """The store's time."""
    events: bool = True
    """Whether the task, attempt and times of each run are written with its outcome."""
    reporter_of: Callable[[str, JobId], RunReporter] | None = None
    """Makes the reporter of a job from its queue and id."""
    failures: FailureLog | None = None
    unknown_after_ms: int = 0
    """How long a job waits for a worker that knows its task, before it is dead."""
    unknown: UnknownLog | None = None
    fallback: Fallback | None = None
    """Gets jobs of unknown tasks, when others had the time to take them."""
    process_start_timeout: float = START_TIMEOUT
    """Seconds for an app to be imported in a process."""
    count_batch: Callable[[str, int], None] | None = None
    """Called with a batch task's name and the size of a batch, if metrics are asked for."""
    failed: Callable[[Any, BaseException, Outcome], None] | None = None
    """Called with a run, its error and its outcome, if errors are wanted as they are."""
    late_after: float = 0.2
    """Seconds after which what waits for a slot, a thread or a process goes back: another worker
    may run it sooner."""
    others: OtherDeclarations | None = None
    """Asked about arguments that do not fit. None if there is no other worker."""
    torn_down: Callable[[], bool] = lambda: False
    """Whether the worker itself is being cancelled. `asyncio.run` cancels the runs with it."""
