"""The other end of `process.py`: a process that runs tasks, one at a time."""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import socket
import sys
import time
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

import msgspec

from headrace.client.context import Context, running
from headrace.client.job import Job
from headrace.client.task import Task
from headrace.core.job import Reason
from headrace.core.judgement import Unfit, describe
from headrace.core.retry import names_of
from headrace.core.signature import Misfit
from headrace.errors import Defer, Reject, RetryLater
from headrace.worker.executor import encoded_result
from headrace.worker.parent import die_with
from headrace.worker.process import HEADER, Reply, Request
from headrace.worker.runners import finished

_decode_request = msgspec.msgpack.Decoder(Request).decode
_encode = msgspec.msgpack.Encoder().encode


class ChildRun:
    """Makes the context when the task asks for it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def context(self) -> Context:
        return self._context


def main() -> None:
    die_with(int(sys.argv[2]), signal.SIGKILL)
    home = os.getpid()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        while request := _receive(channel):
            reply = _encode(answer(request))
            if os.getpid() != home:
                # The task forked and its child came back here: the answer is the parent's to give.
                os._exit(0)
            channel.sendall(len(reply).to_bytes(HEADER, "big") + reply)


def answer(request: Request) -> Reply:
    """Run the job. Whatever it raises goes back as words."""
    try:
        return _value(request)
    except Unfit as error:
        return Reply(reason=error.reason, error_text=str(error))
    except Defer as control:
        return Reply(control="defer", delay=control.delay)
    except Reject as control:
        return Reply(control="reject", error_text=describe(control)[1])
    except RetryLater as control:
        return Reply(control="retry", delay=control.delay, error_text=describe(control)[1])
    except BaseException as error:
        _, text, trace = describe(error)
        return Reply(error_names=names_of(error), error_text=text, traceback=trace)


def _value(request: Request) -> Reply:
    task = _find(request.module, request.qualname)
    try:
        args, kwargs = task.signature.decode(request.payload)
    except Misfit as error:
        raise Unfit(Reason.BAD_ARGUMENTS, str(error)) from None
    context = _context(task, request)
    running.set(ChildRun(context))
    args, kwargs = task.with_context(context, args, kwargs)
    value = finished(task.function(*args, **kwargs))
    return Reply(encoded_result(task, value) if request.keep_result else b"")


def _context(task: Task[..., Any], request: Request) -> Context:
    return Context(
        Job(task.app, request.key, request.queue, task.signature.returns),
        request.attempt,
        request.worker,
        request.fence,
        ends_at=time.monotonic() + request.timeout if request.timeout else None,
        headers=request.headers,
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


def _receive(channel: socket.socket) -> Request | None:
    header = _exactly(channel, HEADER)
    return _decode_request(_exactly(channel, int.from_bytes(header, "big"))) if header else None


def _exactly(channel: socket.socket, size: int) -> bytes:
    """So many bytes, or none if the worker has closed its end."""
    data = bytearray()
    while len(data) < size:
        part = channel.recv(min(size - len(data), 1 << 20))
        if not part:
            return b""
        data += part
    return bytes(data)


if __name__ == "__main__":
    main()
