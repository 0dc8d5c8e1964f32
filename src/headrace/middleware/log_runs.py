"""A line in the log for each run."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from headrace.core.display import length_text
from headrace.errors import BatchError, Defer, Reject, RetryLater, TaskCancelled
from headrace.middleware.views import JobRun
from headrace.middleware.wrapping import Middleware, Proceed


class LogRuns(Middleware):
    """Logs task, job, attempt, outcome and duration; for a batch the first job and the number of
    others. With `starts`, also a line when each begins. Without `failures`, none for a run that
    raised an error or `Reject`: the worker logs those itself. `app.middleware(LogRuns())`."""

    def __init__(
        self,
        logger: logging.Logger | None = None,
        level: int = logging.INFO,
        *,
        starts: bool = False,
        failures: bool = True,
    ) -> None:
        self._log = logger or logging.getLogger("headrace.runs")
        self._level = level
        self._starts = starts
        self._failures = failures

    async def run(self, run: JobRun, proceed: Proceed) -> Any:
        """Changes nothing."""
        if self._starts:
            self._write(run, "started", "started")
        began = time.monotonic()
        try:
            result = await proceed()
        except BaseException as error:
            if self._failures or not _is_failure(error):
                self._write_end(run, _named(error), began)
            raise
        self._write_end(run, "done", began)
        return result

    def _write_end(self, run: JobRun, outcome: str, began: float) -> None:
        took = time.monotonic() - began
        said = f"{outcome} after {length_text(took)}"
        self._write(run, said, outcome, took_ms=round(took * 1000, 3))

    def _write(self, run: JobRun, said: str, outcome: str, **more: object) -> None:
        self._log.log(
            self._level,
            "%s %s%s attempt %d%s: %s",
            run.task.name,
            run.context.job.id,
            f" and {len(run.jobs) - 1} more" if run.task.declared.batch else "",
            run.context.attempt,
            " since its replay" if run.replayed else "",
            said,
            extra={**_fields(run, outcome), **more},
        )


def _fields(run: JobRun, outcome: str) -> dict[str, object]:
    context = run.context
    return {
        "job": context.job.id,
        "queue": context.queue,
        "task": run.task.name,
        "attempt": context.attempt,
        "worker": context.worker,
        "outcome": outcome,
    }


def _is_failure(error: BaseException) -> bool:
    """Whether the worker logs it: a batch has a line for each job there, and one for all here."""
    return isinstance(error, Exception) and not isinstance(error, (Defer, RetryLater, BatchError))


def _named(error: BaseException) -> str:
    if isinstance(error, (asyncio.CancelledError, TaskCancelled)):
        return "cut short"
    if isinstance(error, Reject):
        return "rejected"
    if isinstance(error, Defer):
        return "deferred"
    if isinstance(error, RetryLater):
        return "to be retried"
    if isinstance(error, BatchError):
        return f"{len(error.errors)} failed"
    return f"failed with {type(error).__name__}"
