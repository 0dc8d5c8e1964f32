"""Logs failed attempts and dead jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, assert_never

import msgspec

from headrace.core.clock import to_datetime
from headrace.core.display import cut, length_text
from headrace.core.job import ids
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import Envelope
from headrace.core.job.history import Attempt, decode_history
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
)
from headrace.core.queue_names import group_source, is_log
from headrace.store.contract import Settlement
from headrace.worker.logs.consequences import consequence_of
from headrace.worker.logs.floods import Floods
from headrace.worker.logs.store_deaths import StoreDeathLog

log = logging.getLogger("headrace.worker")

_LONGEST_ERROR = 300
_UNREADABLE = Attempt(1, 0, 0, "", "", "its history cannot be read", "")


CountFailure = Callable[[str, str, str, str], None]
"""Called with the queue, the task, why the job is dead or "", and the type of the error."""


class _Task(Protocol):
    @property
    def name(self) -> str: ...


class LoggedRun(Protocol):
    """A run, as far as it came: of one that was refused, `task` or `envelope` may not be set."""

    envelope: Envelope
    outcome: Outcome
    abandoned: bool

    @property
    def task(self) -> _Task: ...
    @property
    def delivery(self) -> LeasedDelivery: ...
    @property
    def has_begun(self) -> bool: ...
    @property
    def fields(self) -> dict[str, object]: ...


class _Failed(msgspec.Struct, frozen=True):
    """A run that failed, and how often it may be tried."""

    run: LoggedRun
    error_type: str
    most: int


class _Line(msgspec.Struct, frozen=True):
    """One line of the log. Of many, `many` failed so: `send_mail`, `are dead (rejected)`."""

    level: int
    id: str
    what: str
    many: tuple[str, str]
    error: str
    traceback: str
    fields: Mapping[str, object]


class FailureLog:
    """One for a worker. A failure is logged when its outcome is written, so that what the log says
    of a job is what the store has. A run that succeeds never comes here."""

    def __init__(self, count: CountFailure | None = None) -> None:
        self._count = count
        self.noted: dict[LeasedDelivery, _Failed] = {}
        """Failures whose outcome is not written yet."""
        self.attempts = 0
        """Failed attempts, also the last ones of dead jobs."""
        self.deaths = 0
        """Jobs that died here; not those that died with them, in the store."""
        self.in_store = StoreDeathLog()
        self._floods: Floods[_MakeLine] = Floods(self._sum_up)

    def note(self, run: LoggedRun, error_type: str, most: int) -> None:
        """`run` has failed with an error of this type, and may be tried `most` times."""
        if not run.abandoned:
            self.noted[run.delivery] = _Failed(run, error_type, most)

    def written(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        """These outcomes are written, but for those of `lost` deliveries."""
        for item in settlements:
            failed = self.noted.pop(item.delivery, None)
            if failed is not None and item.delivery not in lost:
                self._report(failed, item.outcome)

    def not_written(self, run: LoggedRun, what: str, many: tuple[str, str]) -> None:
        """The outcome of this run is kept nowhere but here."""
        failed = self.noted.pop(run.delivery, None) or _Failed(run, "", 1)
        self.attempts += run.has_begun
        self._log((*many, failed.error_type), partial(_lost, failed, what, many))

    def put_off(self, run: LoggedRun, why: str, problem: str) -> None:
        """This job is tried later, and no attempt has failed."""
        kind = ("put off", run.delivery.queue, _task_of(run), why)
        self._log(kind, partial(_put_off, run, why, problem))

    def result_lost(self, run: LoggedRun, problem: str) -> None:
        """This job is done, and its result cannot be kept."""
        kind = ("result lost", run.delivery.queue, _task_of(run))
        self._log(kind, partial(_without_result, run, problem))

    def close(self) -> None:
        """Log what was only counted so far."""
        self._floods.close()
        self.in_store.close()

    def _report(self, failed: _Failed, outcome: Outcome) -> None:
        run, reason = failed.run, ""
        match outcome:
            case Dead():
                self.deaths += 1
                reason = outcome.reason
            case Retried():
                pass
            case Done() | Cancelled() | Held() | Released() | Left():
                return
            case _:
                assert_never(outcome)
        self.attempts += run.has_begun
        kind = (reason, run.delivery.queue, _task_of(run), failed.error_type)
        if self._count is not None:
            self._count(kind[1], kind[2], reason, failed.error_type)
        self._log(kind, partial(_written, failed, outcome))

    def _log(self, kind: tuple[str, ...], make: _MakeLine) -> None:
        # Made only if it is logged: in a flood, few are.
        if self._floods.admit(kind, make):
            _emit_full(make())

    def _sum_up(self, count: int, make: _MakeLine) -> None:
        line = make()
        who, failed = line.many
        latest = f"the latest is {line.id}: {line.error}"
        text = f"{who}: {count:,} more {failed} in the last second, {latest}"
        _emit(line.level, text, {**line.fields, "count": count})


_MakeLine = Callable[[], _Line]


def _lost(failed: _Failed, what: str, many: tuple[str, str]) -> _Line:
    last = _last_attempt(failed.run.outcome)
    fields = {**_fields(failed, last), "lost": True}
    error, trace = ("it was cut short", "") if last is None else (one_line(last), last.traceback)
    return _Line(logging.ERROR, failed.run.delivery.id_text, what, many, error, trace, fields)


def _put_off(run: LoggedRun, why: str, problem: str) -> _Line:
    what = f"{_name(run)} is put off{why}"
    many = (_kind(run), "are put off")
    return _Line(logging.WARNING, run.delivery.id_text, what, many, problem, "", run.fields)


def _without_result(run: LoggedRun, problem: str) -> _Line:
    what = f"{_name(run)} is done, but its result is lost"
    many = (_kind(run), "are done without their results")
    return _Line(logging.WARNING, run.delivery.id_text, what, many, problem, "", run.fields)


def _written(failed: _Failed, outcome: Outcome) -> _Line:
    last = _last_attempt(outcome) or _UNREADABLE
    if isinstance(outcome, Dead):
        return _dead(failed, outcome, last)
    return _again(failed, outcome, last)


def _again(failed: _Failed, outcome: Outcome, last: Attempt) -> _Line:
    delay_ms = outcome.delay_ms if isinstance(outcome, Retried) else 0
    tried = _tried(failed, outcome, last)
    next_try = to_datetime(last.ended_ms + delay_ms)
    when = f"in {length_text(delay_ms / 1000)}" if delay_ms else "at once"
    return _Line(
        logging.WARNING,
        failed.run.delivery.id_text,
        f"{_name(failed.run)} failed, {tried}, next try {when}",
        (_kind(failed.run), "failed"),
        one_line(last),
        "",
        {**_fields(failed, last), "next_try": next_try},
    )


def _dead(failed: _Failed, outcome: Dead, last: Attempt) -> _Line:
    run = failed.run
    tried = f" after {_tried(failed, outcome, last)}" if run.has_begun else ""
    fields: dict[str, object] = {**_fields(failed, last), "reason": outcome.reason}
    others = ""
    if hasattr(run, "envelope"):
        others = consequence_of(run.envelope, getattr(run, "task", None))
        if flow := run.envelope.overrides.flow:
            fields["flow"] = ids.to_text(flow)
    return _Line(
        logging.ERROR,
        run.delivery.id_text,
        f"{_name(run)} is dead ({outcome.reason}){tried}{others}",
        (_kind(run), f"are dead ({outcome.reason})"),
        one_line(last),
        last.traceback,
        fields,
    )


def _tried(failed: _Failed, outcome: Outcome, last: Attempt) -> str:
    history = decode_history(getattr(outcome, "history", b""))
    replayed = " since its replay" if history.replayed_ms else ""
    return f"attempt {last.number} of {failed.most}{replayed}"


def one_line(attempt: Attempt) -> str:
    """Type and text of an error on one line."""
    text = " ".join(attempt.error_text.split())
    if attempt.error_type:
        text = f"{attempt.error_type}: {text}" if text else attempt.error_type
    return cut(text, _LONGEST_ERROR)


def _last_attempt(outcome: Outcome) -> Attempt | None:
    match outcome:
        case Retried() | Dead():
            attempts = decode_history(outcome.history).attempts
            return attempts[-1] if attempts else None
        case Done() | Cancelled() | Held() | Released() | Left():
            return None
        case _:
            assert_never(outcome)


def _fields(failed: _Failed, last: Attempt | None) -> dict[str, object]:
    fields = {**failed.run.fields, "max_attempts": failed.most}
    if task := _task_of(failed.run):
        fields["task"] = task
    if last is not None:
        fields.update(attempt=last.number, error_type=last.error_type, error=one_line(last))
    return fields


def _name(run: LoggedRun) -> str:
    return f"{_kind(run)} {run.delivery.id_text}"


def _kind(run: LoggedRun) -> str:
    """The task's name; of what cannot be read, what it is."""
    queue = run.delivery.queue
    return _task_of(run) or ("event" if is_log(queue) or group_source(queue) else "job")


def _task_of(run: LoggedRun) -> str:
    if hasattr(run, "task"):
        return run.task.name
    return run.envelope.task if hasattr(run, "envelope") else ""


def _emit_full(line: _Line) -> None:
    _emit(line.level, f"{line.what}: {line.error}", line.fields, line.traceback)


def _emit(level: int, text: str, fields: Mapping[str, object], traceback: str = "") -> None:
    if not log.isEnabledFor(level):
        return
    extra: Any = dict(fields)
    record = log.makeRecord(log.name, level, __file__, 0, "%s", (text,), None, extra=extra)
    # As it is stored: without the worker's own frames, and the same if it came from a process. One
    # without a place in the code, of a time-out or of a process that died, says nothing more.
    record.exc_text = traceback.rstrip() if "\n  File " in traceback else None
    log.handle(record)
