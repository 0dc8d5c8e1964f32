"""Django's results of tasks: made, filled in, and stored as the result of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs

from headrace.client.attempts import AttemptInfo
from headrace.core.job import ids
from headrace.errors import JobFailed
from headrace.integrations.django.framework import base

_TRACEBACKS_KEPT = 10


class TaskAttempt(msgspec.Struct):
    """One attempt. When it began and ended is None where that is not known, or not yet."""

    started: datetime | None
    ended: datetime | None
    worker: str
    error: str = ""
    """The path of its class; empty if there was none."""
    traceback: str = ""

    @classmethod
    def of(cls, attempt: AttemptInfo, reason: str | None = None) -> TaskAttempt:
        """An attempt that failed; `reason` says why there will be no other."""
        error, traceback = attempt.error_type, attempt.traceback
        if not error:
            # No task raised it, so it has no class of its own.
            error = f"{JobFailed.__module__}.{JobFailed.__qualname__}"
            traceback = ": ".join(filter(None, (reason, attempt.error_text)))
        path = error if "." in error else f"builtins.{error}"
        return cls(attempt.started, attempt.ended, attempt.worker, path, traceback)


class StoredResult(msgspec.Struct):
    """What a job returns: the value, and what Django asks about a task that has ended, because the
    store keeps nothing else about it."""

    path: str
    args: list[Any]
    kwargs: dict[str, Any]
    value: Any
    runs: list[TaskAttempt]


def stored_result(result: base.TaskResult[Any], past: Sequence[TaskAttempt]) -> dict[str, Any]:
    """What the job of a successful task returns, after these attempts."""
    run = TaskAttempt(result.last_attempted_at, result.finished_at, result.worker_ids[-1])
    old = len(past) - _TRACEBACKS_KEPT
    # A job must not fail because what it keeps of its past is too large.
    runs = [structs.replace(each, traceback="") for each in past[: max(0, old)]]
    runs += [*past[max(0, old) :], run]
    whole = StoredResult(
        result.task.module_path, result.args, result.kwargs, result.return_value, runs
    )
    plain: dict[str, Any] = msgspec.to_builtins(whole)
    return plain


def attempt_fields(runs: Sequence[TaskAttempt]) -> dict[str, Any]:
    """The fields of a result that come from its attempts."""
    starts = [each.started for each in runs if each.started is not None]
    return {
        "started_at": starts[0] if starts else None,
        "last_attempted_at": starts[-1] if starts else None,
        "errors": [
            base.TaskError(exception_class_path=each.error, traceback=each.traceback)
            for each in runs
            if each.error
        ],
        "worker_ids": [each.worker for each in runs],
    }


def new_result(
    task: base.Task[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    id: str | None = None,
) -> base.TaskResult[Any]:
    """The result of a task that has not begun."""
    return base.TaskResult(
        task=task,
        id=id or ids.to_text(ids.new_id()),
        status=base.TaskResultStatus("READY"),
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def change(result: base.TaskResult[Any], **values: Any) -> None:
    """Set fields of a result, which is frozen for users."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def now() -> datetime:
    return datetime.now(UTC)
