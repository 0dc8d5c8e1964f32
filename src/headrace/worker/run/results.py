"""Results of functions as bytes, and as verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core import codec
from headrace.core.job.failure import Unfit
from headrace.core.job.state import Reason
from headrace.core.job.verdict import done_verdict
from headrace.core.payload.codecs import PLAIN
from headrace.core.wrong_use import kind_of
from headrace.worker.run.run import Run

if TYPE_CHECKING:
    from headrace.client.task import Task


class Encoded:
    """A result that is encoded already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def result_of(run: Run, value: Any) -> bytes:
    """The result of a run as bytes, by the codec of its task."""
    if isinstance(value, Encoded):
        return value.data
    task = run.task
    return encoded_result(task, value, as_plain=task.signature.form is PLAIN or is_passed_on(run))


def is_passed_on(run: Run) -> bool:
    """Whether other jobs take the result of a run, which they can as MessagePack alone."""
    return bool(run.envelope.overrides.flow) or run.task.on_success is not None


def verdict_of(run: Run, data: bytes) -> bytes:
    """The verdict with this result, compressed if that is worth it. What other jobs take stays as
    it is."""
    task, packing = run.task, None
    if (task.packer is None and not task.signature.content) or is_passed_on(run):
        return done_verdict(data)
    if task.packer is not None:
        data, packing = task.packer.packed(data)
    return done_verdict(data, task.signature.content, packing)


def encoded_result(task: Task[..., Any], value: Any, *, as_plain: bool) -> bytes:
    """The result of a task as bytes, by its codec or as MessagePack; `Unfit` if it cannot travel,
    since running again would not help."""
    try:
        return codec.encode(value) if as_plain else task.signature.form.encode(value)
    except Exception as error:
        raise Unfit(
            Reason.BAD_RESULT,
            f"task {task.name!r} returned {kind_of(value)} that cannot travel: {error}",
        ) from None
