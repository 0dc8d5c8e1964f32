"""The other end of `task_process.py`: a process that runs tasks, one at a time."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from headrace.client.context import NULL_REPORTER, Context, RunReporter, running
from headrace.client.job import Job
from headrace.client.task import Task
from headrace.core.job.failure import Unfit, describe, expired
from headrace.core.job.retry import names_of
from headrace.core.job.state import Reason
from headrace.core.job.unknown import BadArguments
from headrace.core.misfit import Misfit
from headrace.errors import Defer, Reject, RetryLater, TaskCancelled
from headrace.worker.processes.bell import BellRope
from headrace.worker.processes.child_channel import ChildChannel
from headrace.worker.processes.child_lifetime import die_with
from headrace.worker.processes.found_tasks import find_task
from headrace.worker.processes.messages import RunDone, RunReply, RunRequest
from headrace.worker.processes.process_reporter import ProcessReporter
from headrace.worker.processes.process_states import ProcessStates
from headrace.worker.processes.signals import dump_stacks_on_request, handle
from headrace.worker.processes.start_tokens import EntryMark, TakenTokens
from headrace.worker.run.results import ResultUnfit, encoded_result
from headrace.worker.threads.thread_function import finished


class Cancellation:
    """Makes an exception of SIGTERM, in the task's function and nowhere else. After the signal the
    process leaves with its reply."""

    def __init__(self) -> None:
        self.asked = False
        self.busy = False
        """From before a job is taken until its reply has left."""
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
    parent, channel_fd, tokens_fd, mark_fd, bell_fd = map(int, sys.argv[1:])
    die_with(parent, signal.SIGKILL)
    handle(signal.SIGTERM, cancellation.on_signal)
    dump_stacks_on_request()
    channel = ChildChannel(socket.socket(fileno=channel_fd), BellRope(bell_fd))
    mark = EntryMark(mark_fd)
    tokens, reporter, home = TakenTokens(tokens_fd), ProcessReporter(channel), os.getpid()
    try:
        while number := _next(tokens, channel):
            run = ChildRun(channel.request(number), reporter, mark.write, mark.begin_set_up)
            reply = run.reply()
            if os.getpid() != home:
                # The task forked and its child came back here: the answer is the parent's to give.
                os._exit(0)
            reporter.flush()
            channel.send_result(reply)
        channel.rest()
    except EOFError:
        pass
    _states.close()


def _next(tokens: TakenTokens, channel: ChildChannel) -> int:
    """The number of the next run, once there is one; 0 if this process is asked to leave."""
    while not cancellation.asked:
        # Before the token is taken: a signal must not end the process with a run in its hand.
        cancellation.busy = True
        if number := tokens.take():
            return number
        channel.rest()
        cancellation.busy = False
        if not cancellation.asked:
            tokens.wait()
    return 0


class ChildRun:
    """One run, from its request to its reply; `headrace.current()` finds its context here. `enter`
    is called with its number and the time right before its function is entered, `begin_set_up` with
    its number if the process is set up for it."""

    _context: Context | None = None
    _state: Any = None
    _started = 0.0
    """When its function was entered or, before that, when all was there to find it."""

    def __init__(
        self,
        request: RunRequest,
        reporter: RunReporter = NULL_REPORTER,
        enter: Callable[[int, float], object] = lambda number, at: None,
        begin_set_up: Callable[[int], object] = lambda number: None,
    ) -> None:
        self._request = request
        self._reporter = reporter
        self._enter = enter
        self._begin_set_up = partial(begin_set_up, request.number)
        self._task: Task[..., Any]

    def reply(self) -> RunDone | RunReply:
        """Run the job. An exception becomes a reply too."""
        began, request = time.monotonic(), self._request
        try:
            self._task = find_task(request.module, request.qualname, request.included_by)
            self._state = _states.of(self._task.app, self._begin_set_up)
            # An import, or a set-up, is no sign of how long runs take.
            self._started = began = time.monotonic()
            data = self._result()
        except BaseException as error:
            reply = _reply(error)
            ended = time.monotonic()
            reply.number = self._request.number
            reply.busy = ended - began
            if not reply.reason or reply.reason == Reason.BAD_RESULT:
                reply.started, reply.took = self._started or began, ended - (self._started or began)
            return reply
        ended = time.monotonic()
        return RunDone(
            self._request.number, ended - began, self._started, ended - self._started, data
        )

    def _result(self) -> bytes:
        request, task = self._request, self._task
        try:
            signature = task.signature.of_content(request.content)
            if request.first_argument:
                args, kwargs = signature.decode_with_first(request.payload, request.first_argument)
            else:
                args, kwargs = signature.decode(request.payload)
        except Misfit as error:
            raise BadArguments(str(error)) from None
        self._start_clock()
        running.set(self)
        if task.injects:
            args, kwargs = task.with_context(self.context(), args, kwargs)
        with task.app.enter_middleware(self):
            value = finished(cancellation.guarded(partial(task.function, *args, **kwargs)))
        if not request.wants_result:
            return b""
        most, as_plain = task.app.max_payload, request.is_passed_on
        return encoded_result(task, value, most, as_plain=as_plain)

    def _start_clock(self) -> None:
        now, start_by = time.monotonic(), self._request.start_by
        if start_by and now >= start_by:
            raise expired()
        self._started = now
        self._enter(self._request.number, now)

    def context(self) -> Context:
        if self._context is None:
            request, task = self._request, self._task
            self._context = Context(
                Job(task.app, request.key, request.queue, task.signature.returns),
                request.attempt,
                request.worker,
                request.fence,
                self._state,
                ends_at=self._started + request.timeout if request.timeout else None,
                headers=request.headers,
                reporter=self._reporter,
            )
        return self._context


def _reply(error: BaseException) -> RunReply:
    match error:
        case ResultUnfit():
            return RunReply(reason=error.reason, error_text=str(error), shown=error.shown)
        case Unfit():
            return RunReply(reason=error.reason, error_text=str(error))
        case Defer():
            return RunReply(control="defer", delay=error.delay)
        case Reject():
            return RunReply(control="reject", error_text=describe(error)[1])
        case TaskCancelled():
            return RunReply(control="cancelled")
        case RetryLater():
            return RunReply(control="retry", delay=error.delay, error_text=describe(error)[1])
        case _:
            return _failure(error)


def _failure(error: BaseException) -> RunReply:
    """The reply for what a task raised, also if describing that fails."""
    try:
        _, text, trace = describe(error)
        return RunReply(error_names=names_of(error), error_text=text, traceback=trace)
    except BaseException as trouble:
        named = f"{type(error).__name__}, which could not be judged: {type(trouble).__name__}"
        return _failure(RuntimeError(f"the task raised {named}"))


_states = ProcessStates()


if __name__ == "__main__":
    main()
