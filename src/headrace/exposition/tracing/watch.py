"""What a run's span says of its end."""

from __future__ import annotations

import asyncio
from time import time_ns

from opentelemetry.trace import Span, Status, StatusCode

from headrace.audit.record import Ending
from headrace.client.subscription import Subscription
from headrace.core.job.retry import RemoteError, full_name
from headrace.errors import RetryLater, TaskCancelled, TaskControl
from headrace.exposition.tracing.conventions import ERROR_TYPE, FAILED, OUTCOME, common
from headrace.middleware.views import JobRun

_ASKED_FOR = (TaskControl, TaskCancelled, asyncio.CancelledError)
_LATER = full_name(RetryLater)


class Watch:
    """Ends a span when it is decided what becomes of its jobs, with the time at which the function
    ended; if that goes on nevertheless, as one that has settled its event by hand may, when it
    ends. One that cannot be stopped is not waited for."""

    def __init__(self, span: Span, run: JobRun) -> None:
        self._span = span
        self._ended_ns: int | None = None
        self._endings: list[Ending] = []
        self._missing = 0
        if span.is_recording():
            task = run.task
            self._by_hand = isinstance(task, Subscription) and task.wants.ack == "manual"
            self._missing = len(run.jobs)
            run.when_settled(self._settled)

    def ended(self) -> None:
        if not self._span.is_recording():
            return
        self._ended_ns = time_ns()
        if not self._missing:
            self._span.end(self._ended_ns)

    def failed(self, error: BaseException) -> None:
        if self._span.is_recording() and not isinstance(error, _ASKED_FOR):
            self._record(error)
        self.ended()

    def _record(self, error: BaseException) -> None:
        if isinstance(error, RemoteError):
            said = {
                "exception.type": error.names[0],
                "exception.message": str(error),
                "exception.stacktrace": error.traceback,
            }
            self._span.add_event("exception", said)
        else:
            self._span.record_exception(error)

    def _settled(self, ending: Ending) -> None:
        self._endings.append(ending)
        self._missing -= 1
        if self._missing:
            return
        self._tell()
        if self._ended_ns is not None or not self._by_hand:
            self._span.end(self._ended_ns)

    def _tell(self) -> None:
        self._span.set_attribute(OUTCOME, common(one.outcome for one in self._endings) or "mixed")
        failures = [one for one in self._endings if _is_failure(one)]
        if not failures:
            return
        first = failures[0]
        self._span.set_attribute(ERROR_TYPE, first.error_type or first.reason)
        self._span.set_status(Status(StatusCode.ERROR, first.error_text or first.reason))
        if len(self._endings) > 1:
            self._span.set_attribute(FAILED, len(failures))


def _is_failure(ending: Ending) -> bool:
    """Not what the function asked for, unless there was no attempt left for it."""
    if ending.outcome == "retry":
        return ending.error_type != _LATER
    return ending.outcome in ("dead", "lost")
