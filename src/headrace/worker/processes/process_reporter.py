"""The reporter of a run in a process: it reports through the worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from headrace.client.context import RunReporter
from headrace.errors import HeadraceError, StoreError
from headrace.worker.upkeep.progress_writer import ReportBuffer

HEADER = 8
# The worker itself writes four times a second; this keeps a busy process from flooding it.
_EVERY = 0.05


class ReportMessage(msgspec.Struct, array_like=True, tag="report"):
    """From the process: progress and log lines."""

    progress: tuple[float, str] | None
    lines: tuple[str, ...]


class OnceRequest(msgspec.Struct, array_like=True, tag="once"):
    """From the process: read what is kept under a name or, with a value, keep it."""

    name: str
    value: bytes | None = None


class OnceReply(msgspec.Struct, array_like=True):
    """To the process, which waits for it."""

    value: bytes | None = None
    trouble: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode_answer = msgspec.msgpack.Decoder(OnceReply).decode


def framed(message: msgspec.Struct) -> bytes:
    """A message as it goes over the socket: its length, then it."""
    data = _encode(message)
    return len(data).to_bytes(HEADER, "big") + data


async def handle_message(
    message: ReportMessage | OnceRequest, reporter: RunReporter
) -> OnceReply | None:
    """In the worker: pass on a message of a process; the reply, if the process waits for one."""
    if isinstance(message, ReportMessage):
        if message.progress is not None:
            reporter.progress(*message.progress)
        for line in message.lines:
            reporter.log(line)
        return None
    try:
        if message.value is None:
            return OnceReply(await reporter.recall(message.name))
        await reporter.remember(message.name, message.value)
    except HeadraceError as error:
        return OnceReply(trouble=str(error))
    return OnceReply()


class ProcessReporter:
    """In the process: the reporter of the run at hand, over the socket on which it came."""

    def __init__(self, channel: socket.socket, receive: Callable[[], bytes]) -> None:
        self._channel = channel
        self._receive = receive
        self._home = os.getpid()
        self._sending = threading.RLock()
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
            answer = _decode_answer(self._receive())
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
        with self._sending, contextlib.suppress(OSError):
            self._channel.sendall(framed(message))
