"""The reporter of a run in a process: it reports through the worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time

from headrace.client.context import RunReporter
from headrace.errors import HeadraceError, StoreError
from headrace.worker.processes.child_channel import ChildChannel
from headrace.worker.processes.messages import OnceReply, OnceRequest, ReportMessage
from headrace.worker.upkeep.progress_writer import ReportBuffer

# The worker itself writes four times a second; this keeps a busy process from flooding it.
_EVERY = 0.05


def pass_on(message: ReportMessage, reporter: RunReporter) -> None:
    """In the worker: report what a process reports."""
    if message.progress is not None:
        reporter.progress(*message.progress)
    for line in message.lines:
        reporter.log(line)


async def answer(message: OnceRequest, reporter: RunReporter) -> OnceReply:
    """In the worker: the answer to a process that waits for it."""
    try:
        if message.value is None:
            return OnceReply(await reporter.recall(message.name))
        await reporter.remember(message.name, message.value)
    except HeadraceError as error:
        return OnceReply(trouble=str(error))
    return OnceReply()


class ProcessReporter:
    """In the process: the reporter of the run at hand, over the socket on which it came."""

    def __init__(self, channel: ChildChannel) -> None:
        self._channel = channel
        self._home = os.getpid()
        self._sending = channel.sending
        self._asking = threading.Lock()
        self._buffer = ReportBuffer()
        self._next_at = 0.0
        self._timer: threading.Timer | None = None

    def progress(self, fraction: float, text: str) -> None:
        if self._is_home:
            with self._sending:
                self._buffer.progress = fraction, text
                self._send_soon()

    def log(self, line: str) -> None:
        if self._is_home:
            with self._sending:
                self._buffer.add([line])
                self._send_soon()

    def flush(self) -> None:
        """Send what was not sent yet; called before the run's reply is sent."""
        with self._sending:
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            if self._buffer:
                message, self._buffer = (
                    ReportMessage(self._buffer.progress, self._buffer.lines()),
                    ReportBuffer(),
                )
                self._next_at = time.monotonic() + _EVERY
                self._send(message)

    async def recall(self, name: str) -> bytes | None:
        return await asyncio.to_thread(self.recall_sync, name)

    async def remember(self, name: str, value: bytes) -> None:
        await asyncio.to_thread(self.remember_sync, name, value)

    def recall_sync(self, name: str) -> bytes | None:
        return self._ask(OnceRequest(name))

    def remember_sync(self, name: str, value: bytes) -> None:
        self._ask(OnceRequest(name, value))

    @property
    def _is_home(self) -> bool:
        """False in a process that the task has forked: two that write to the socket would mix their
        messages."""
        return os.getpid() == self._home

    def _ask(self, question: OnceRequest) -> bytes | None:
        if not self._is_home:
            raise HeadraceError("ctx.once() was called in a process that the task has forked")
        with self._asking:
            self._send(question)
            answer = self._channel.answer()
        if answer.trouble:
            raise StoreError(answer.trouble)
        return answer.value

    def _send_soon(self) -> None:
        pause = self._next_at - time.monotonic()
        if pause <= 0:
            self.flush()
        elif self._timer is None:
            self._timer = threading.Timer(pause, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def _send(self, message: ReportMessage | OnceRequest) -> None:
        # If the worker is gone, so is this process in a moment.
        with contextlib.suppress(OSError):
            self._channel.send(message)
