"""The other end of `process_pool.py`: a process that runs tasks, one at a time."""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from types import FrameType, SimpleNamespace
from typing import Any

import msgspec

from headrace.client.context import NULL_REPORTER, Context, RunReporter, running
from headrace.client.job import Job
from headrace.client.task import Task
from headrace.core.job.failure import Unfit, describe
from headrace.core.job.retry import names_of
from headrace.core.job.state import Reason
from headrace.core.task.signature import Misfit
from headrace.errors import Defer, Reject, RetryLater, TaskCancelled
from headrace.worker.processes.child_lifetime import die_with
from headrace.worker.processes.process_pool import RunBegun, RunReply, RunRequest
from headrace.worker.processes.process_reporter import HEADER, ProcessReporter, framed
from headrace.worker.run.outcomes import encoded_result
from headrace.worker.run.runners import finished

_decode_request = msgspec.msgpack.Decoder(RunRequest).decode
_BEGUN = framed(RunBegun())


class ChildRun:
    """The run at hand, as `headrace.current()` finds it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def context(self) -> Context:
        return self._context


class Cancellation:
    """Makes an exception of SIGTERM, in the task's function and nowhere else. After the signal the
    process leaves with its reply."""

    def __init__(self) -> None:
        self.asked = False
        self.busy = False
        """From the arrival of a job until its reply has left."""
        self._inside = False
        self._home = os.getpid()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._home or not self.busy:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.asked = True
        if not self._inside:
            return
        if _is_speaking(frame):
            # In the middle of a message to the worker, which must arrive whole: in a moment.
            threading.Timer(0.01, os.kill, (self._home, number)).start()
            return
        self._inside = False
        raise TaskCancelled

    def guarded(self, work: Callable[[], Any]) -> Any:
        self._inside = True
        try:
            if self.asked:
                raise TaskCancelled
            return work()
        finally:
            self._inside = False


def _is_speaking(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == ProcessReporter.__module__:
            return True
        frame = frame.f_back
    return False


cancellation = Cancellation()


def main() -> None:
    die_with(int(sys.argv[2]), signal.SIGKILL)
    home = os.getpid()
    signal.signal(signal.SIGTERM, cancellation.on_signal)
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        reporter = ProcessReporter(channel, lambda: _frame(channel))
        while not cancellation.asked and (data := _frame(channel)):
            cancellation.busy = True
            reply = answer(_decode_request(data), reporter, partial(channel.sendall, _BEGUN))
            if os.getpid() != home:
                # The task forked and its child came back here: the answer is the parent's to give.
                os._exit(0)
            reporter.flush()
            channel.sendall(framed(reply))
            cancellation.busy = False


def answer(
    request: RunRequest,
    reporter: RunReporter = NULL_REPORTER,
    begin: Callable[[], object] = lambda: None,
) -> RunReply:
    """Run the job; `begin` is called before its function is entered, if its time is limited. An
    exception becomes a reply too."""
    try:
        return _value(request, reporter, begin)
    except Unfit as error:
        return RunReply(reason=error.reason, error_text=str(error))
    except Defer as control:
        return RunReply(control="defer", delay=control.delay)
    except Reject as control:
        return RunReply(control="reject", error_text=describe(control)[1])
    except TaskCancelled:
        return RunReply(control="cancelled")
    except RetryLater as control:
        return RunReply(control="retry", delay=control.delay, error_text=describe(control)[1])
    except BaseException as error:
        return _failure(error)


def _failure(error: BaseException) -> RunReply:
    """The reply for what a task raised, also if describing that fails."""
    try:
        _, text, trace = describe(error)
        return RunReply(error_names=names_of(error), error_text=text, traceback=trace)
    except BaseException as trouble:
        named = f"{type(error).__name__}, which could not be judged: {type(trouble).__name__}"
        return _failure(RuntimeError(f"the task raised {named}"))


def _value(request: RunRequest, reporter: RunReporter, begin: Callable[[], object]) -> RunReply:
    task = _find(request.module, request.qualname)
    try:
        if request.first_argument:
            args, kwargs = task.signature.decode_with_first(request.payload, request.first_argument)
        else:
            args, kwargs = task.signature.decode(request.payload)
    except Misfit as error:
        raise Unfit(Reason.BAD_ARGUMENTS, str(error)) from None
    context = _context(task, request, reporter)
    running.set(ChildRun(context))
    args, kwargs = task.with_context(context, args, kwargs)
    if request.timeout:
        begin()
    with task.app.enter_middleware(context):
        value = finished(cancellation.guarded(partial(task.function, *args, **kwargs)))
    return RunReply(encoded_result(task, value) if request.keep_result else b"")


def _context(task: Task[..., Any], request: RunRequest, reporter: RunReporter) -> Context:
    return Context(
        Job(task.app, request.key, request.queue, task.signature.returns),
        request.attempt,
        request.worker,
        request.fence,
        ends_at=time.monotonic() + request.timeout if request.timeout else None,
        headers=request.headers,
        reporter=reporter,
    )


def _find(module: str, qualname: str) -> Task[..., Any]:
    """The task by the name of its function. A script is run once, under the name by which others
    would import it, so that its guarded part stays quiet."""
    if module.endswith(".py"):
        found: Any = _scripts.get(module) or _run_script(module)
    else:
        found = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    if not isinstance(found, Task):
        raise TypeError(f"{module}.{qualname} is not a task")
    return found


_scripts: dict[str, SimpleNamespace] = {}


def _run_script(path: str) -> SimpleNamespace:
    _scripts[path] = SimpleNamespace(**runpy.run_path(path, run_name=PurePath(path).stem))
    return _scripts[path]


def _frame(channel: socket.socket) -> bytes:
    """The next message; empty if the worker has closed its end."""
    header = _exactly(channel, HEADER)
    return _exactly(channel, int.from_bytes(header, "big")) if header else b""


def _exactly(channel: socket.socket, size: int) -> bytes:
    """`size` bytes; none if the worker has closed its end."""
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(size - len(data), 1 << 20))
        if not part:
            return b""
        data += part
    return bytes(data)


if __name__ == "__main__":
    main()
