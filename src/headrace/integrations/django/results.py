"""Django's results of tasks: made anew, filled in, and what of them a job keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.client.job import AttemptInfo
from headrace.core import ids
from headrace.integrations.django.framework import base


class Ran(msgspec.Struct):
    """One attempt."""

    started: datetime
    ended: datetime
    worker: str


class Kept(msgspec.Struct):
    """What a job returns: beside the value all that Django asks of a task that has ended, of which
    the store keeps nothing else."""

    path: str
    args: list[Any]
    kwargs: dict[str, Any]
    value: Any
    runs: list[Ran]


def new_result(
    task: base.Task[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    id: str | None = None,
) -> base.TaskResult[Any]:
    """The result of a task that has not begun."""
    return base.TaskResult(
        task=task,
        id=id or ids.to_text(ids.new_key()),
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
    """Fill in what has become known: for those who are given it, a result is frozen."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def error_of(attempt: AttemptInfo) -> base.TaskError:
    kind = attempt.error_type
    path = kind if "." in kind else f"builtins.{kind}"
    return base.TaskError(exception_class_path=path, traceback=attempt.traceback)


def now() -> datetime:
    return datetime.now(UTC)
