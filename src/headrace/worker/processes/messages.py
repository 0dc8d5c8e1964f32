"""The messages between a worker and its task processes."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Literal, assert_never

import msgspec

from headrace.core.job.failure import Unfit
from headrace.core.job.retry import RemoteError
from headrace.core.job.state import Reason
from headrace.core.job.unknown import BadArguments
from headrace.errors import Defer, Reject, RetryLater, TaskCancelled
from headrace.worker.run.results import ResultUnfit, is_passed_on
from headrace.worker.run.run import Run

HEADER = 8
# No message comes near this: what claims to be longer is not a message.
MOST_BYTES = 1 << 34


class RunRequest(msgspec.Struct, array_like=True):
    """To the process: a run that it begins once it has taken the token with its number."""

    number: int
    module: str
    qualname: str
    queue: str
    key: bytes
    payload: bytes
    attempt: int
    worker: str
    fence: int
    timeout: float
    headers: dict[str, str]
    wants_result: bool
    """Whether somebody wants what the function returns: callers, other jobs, or middleware."""
    first_argument: bytes = b""
    """The first argument, encoded, if it does not come with the others."""
    start_by: float = 0.0
    """When the job expires, by the monotonic clock; 0 if it does not."""
    content: str = ""
    """The content type of the payload."""
    is_passed_on: bool = False
    """Whether other jobs take its result."""
    included_by: tuple[str, ...] = ()
    """Modules that make it a task of its app, if its own does not."""


class RunRequests(msgspec.Struct, array_like=True, tag="runs"):
    """To the process: one or more runs, in the order in which it begins them."""

    runs: list[RunRequest]


class OnceReply(msgspec.Struct, array_like=True, tag="once"):
    """To the process, which waits for it."""

    value: bytes | None = None
    trouble: str = ""


class RunDone(msgspec.Struct, array_like=True, tag="done"):
    """From the process: a function that returned."""

    number: int
    busy: float
    """Seconds that the process was busy with it."""
    started: float
    """When its function was entered, by the monotonic clock; 0 if it was not."""
    took: float
    """Seconds until its function ended."""
    value: bytes = b""


Control = Literal["", "cancelled", "defer", "reject", "retry"]


class RunReply(msgspec.Struct, array_like=True, tag="reply"):
    """From the process: an error, or task control."""

    number: int = 0
    busy: float = 0.0
    started: float = 0.0
    took: float = 0.0
    error_names: tuple[str, ...] = ()
    error_text: str = ""
    traceback: str = ""
    reason: str = ""
    """Set if the job was unfit to run."""
    control: Control = ""
    """Set if it decided itself what becomes of its job."""
    delay: float | None = None
    shown: str | None = None
    """Set if the function has returned, and its result cannot travel: what that was."""


class ReportMessage(msgspec.Struct, array_like=True, tag="report"):
    """From the process: progress and log lines of the run at hand."""

    progress: tuple[float, str] | None
    lines: tuple[str, ...]


class OnceRequest(msgspec.Struct, array_like=True, tag="once"):
    """From the process: read what is kept under a name or, with a value, keep it."""

    name: str
    value: bytes | None = None


_encode = msgspec.msgpack.Encoder().encode


def framed(message: msgspec.Struct) -> bytes:
    """A message as it goes over the socket: its length, then it."""
    data = _encode(message)
    return len(data).to_bytes(HEADER, "big") + data


def request(run: Run, number: int) -> RunRequest:
    function, delivery, envelope = run.task.function, run.delivery, run.envelope
    passed_on = is_passed_on(run)
    expires_ms = envelope.overrides.expires_ms
    return RunRequest(
        number,
        _importable(function.__module__),
        function.__qualname__,
        delivery.queue,
        delivery.job_id,
        run.payload,
        run.attempt,
        run.settings.worker,
        run.fence,
        run.timeout or 0.0,
        run.headers,
        bool(run.task.declared.result_ttl) or passed_on or run.result_is_seen,
        run.first_argument,
        0.0 if expires_ms is None else _by_monotonic_clock(expires_ms - run.settings.now_ms()),
        envelope.overrides.content if run.changed is None else run.task.signature.content,
        passed_on,
        tuple(map(_importable, run.task.included_by)),
    )


def _by_monotonic_clock(left_ms: float) -> float:
    return time.monotonic() + left_ms / 1000


def _importable(module: str) -> str:
    """The name under which the child finds a module; for a script that is being run, its path."""
    if module != "__main__":
        return module
    main: Any = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return str(spec.name) if spec is not None else os.path.abspath(str(main.__file__))


def error_of(reply: RunReply) -> BaseException:
    """What the function raised, as the worker judges it."""
    match reply.control:
        case "cancelled":
            return TaskCancelled()
        case "defer":
            return Defer(reply.delay or 0.0)
        case "reject":
            return Reject(reply.error_text)
        case "retry":
            return RetryLater(reply.delay, reply.error_text)
        case "":
            if reply.shown is not None:
                return ResultUnfit(reply.error_text, reply.shown)
            if reply.reason == Reason.BAD_ARGUMENTS:
                return BadArguments(reply.error_text)
            if reply.reason:
                return Unfit(Reason(reply.reason), reply.error_text)
            return RemoteError(reply.error_names, reply.error_text, reply.traceback)
        case _:
            assert_never(reply.control)
