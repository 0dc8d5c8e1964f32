"""Results of functions as bytes, and as verdicts."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

from headrace.core import codec
from headrace.core.bounds import MAX_LOST_RESULT
from headrace.core.display import cut
from headrace.core.job.failure import Unfit, storable
from headrace.core.job.state import Reason
from headrace.core.job.verdict import done_verdict
from headrace.core.payload.codecs import PLAIN
from headrace.core.wrong_use import with_article
from headrace.worker.run.run import Run

if TYPE_CHECKING:
    from headrace.client.task import Task


class Encoded:
    """A result that is encoded already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class ResultUnfit(Unfit):
    """The function has returned, and what it returned, which `shown` shows, cannot travel. Running
    again would not help."""

    def __init__(self, problem: str, shown: str) -> None:
        super().__init__(Reason.BAD_RESULT, problem)
        self.shown = shown


def result_of(run: Run, value: Any, most: int) -> bytes:
    """The result of a run as at most so many bytes, by the codec of its task; `ResultUnfit` if it
    cannot travel."""
    if type(value) is ResultUnfit:
        raise value
    if isinstance(value, Encoded):
        return value.data
    task = run.task
    as_plain = task.signature.form is PLAIN or is_passed_on(run)
    return encoded_result(task, value, most, as_plain=as_plain)


def is_passed_on(run: Run) -> bool:
    """Whether other jobs take the result of a run, which they can as MessagePack alone."""
    return bool(run.envelope.overrides.flow) or run.task.on_success is not None


def is_needed(run: Run) -> bool:
    """Whether a run without its result has failed."""
    return run.task.declared.strict_result or is_passed_on(run)


def verdict_of(run: Run, data: bytes) -> bytes:
    """The verdict with this result, compressed if that is worth it. What other jobs take stays as
    it is."""
    task, packing = run.task, None
    if (task.packer is None and not task.signature.content) or is_passed_on(run):
        return done_verdict(data)
    if task.packer is not None:
        data, packing = task.packer.packed(data)
    return done_verdict(data, task.signature.content, packing)


def encoded_result(task: Task[..., Any], value: Any, most: int, *, as_plain: bool) -> bytes:
    """The result of a task as at most so many bytes, by its codec or as MessagePack; `ResultUnfit`
    if it cannot travel."""
    typed = as_plain or task.signature.form.is_typed
    if typed and (size := codec.least_size(value)) > most:
        raise _too_large(size, most, value)
    try:
        data = codec.encode(value) if as_plain else task.signature.form.encode(value)
    except Exception as error:
        kind = "None" if value is None else with_article(codec.name_of(type(value)))
        problem = f"task {task.name!r} returned {kind} that cannot travel: {error}"
        raise ResultUnfit(problem, shown(value)) from None
    if len(data) > most:
        raise _too_large(len(data), most, value)
    return data


def _too_large(size: int, most: int, value: Any) -> ResultUnfit:
    problem = (
        f"the result takes {size:,} bytes, the limit is {most:,}; "
        "return a reference to the data instead, or raise max_payload"
    )
    return ResultUnfit(problem, shown(value))


class _Short(reprlib.Repr):
    """Shows no more of a value than is kept, so that gigabytes are not copied for that."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MAX_LOST_RESULT
        self.maxlevel = 8
        self.maxstring = self.maxother = 2 * MAX_LOST_RESULT
        for name in ("maxtuple", "maxlist", "maxarray", "maxdict", "maxset", "maxfrozenset"):
            setattr(self, name, MAX_LOST_RESULT)

    def repr1(self, value: Any, level: int) -> str:
        # Each part has a character at least: more of them would not be seen, and lists of lists
        # have millions.
        self._left -= 1
        return super().repr1(value, level) if self._left >= 0 else "…"

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value[:MAX_LOST_RESULT])

    repr_bytearray = repr_bytes

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        # In its own order, unlike its base.
        items = list(zip(value, range(MAX_LOST_RESULT), strict=False))
        said = (f"{self.repr1(k, level - 1)}: {self.repr1(value[k], level - 1)}" for k, _ in items)
        return f"{{{', '.join(said)}}}"


def shown(value: Any) -> str:
    """The beginning of the `repr` of a value, whatever that is."""
    try:
        text = _Short().repr(value)
    except BaseException as broken:
        text = f"<its repr cannot be had: {type(broken).__name__}>"
    return storable(cut(text or "<its repr is empty>", MAX_LOST_RESULT))
