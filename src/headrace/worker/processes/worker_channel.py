"""A worker's end of the socket to one of its task processes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import msgspec

from headrace.worker.processes.bell import Bell
from headrace.worker.processes.messages import (
    HEADER,
    MOST_BYTES,
    OnceRequest,
    ReportMessage,
    RunDone,
    RunReply,
    framed,
)

Message = RunDone | RunReply | ReportMessage | OnceRequest

_decode: Callable[[bytes | bytearray], Message] = msgspec.msgpack.Decoder(Message).decode
_CHUNK = 1 << 16


class Garbled(Exception):
    """What came from a process is not a message of ours: its task has written to the socket."""


class WorkerChannel:
    """Sends without waiting, and passes on what comes: all messages of one read together, or
    `Garbled`."""

    def __init__(
        self, connection: socket.socket, received: Callable[[list[Message], Garbled | None], None]
    ) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._received = received
        self._loop = asyncio.get_running_loop()
        self.bell = Bell()
        self._loop.add_reader(self.bell.reader, self._on_bell)
        self._coming = bytearray()
        self._going = bytearray()
        self._reading = True

    def send(self, message: msgspec.Struct) -> None:
        data = framed(message)
        if self._going:
            self._going += data
            return
        sent = self._write(data)
        if sent < len(data):
            self._going += memoryview(data)[sent:]
            self._loop.add_writer(self._socket.fileno(), self._write_rest)

    def drain(self) -> None:
        """Pass on what has come."""
        while self._reading and self._read() >= _CHUNK:
            pass

    def close(self) -> None:
        self._reading = False
        self._loop.remove_reader(self.bell.reader)
        self.bell.close()
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    def _on_bell(self) -> None:
        if not self.bell.hear():
            self._loop.remove_reader(self.bell.reader)
        self.drain()

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            # The process is gone, or is going: that is noticed where its end is waited for.
            return len(data)

    def _write_rest(self) -> None:
        del self._going[: self._write(self._going)]
        if not self._going:
            self._loop.remove_writer(self._socket.fileno())

    def _read(self) -> int:
        """How much has come; if less than a chunk, all has."""
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        if not data:
            self._reading = False
            return 0
        messages: list[Message] = []
        garbled: Garbled | None = None
        try:
            self._split(data, messages)
        except (Garbled, msgspec.MsgspecError, RecursionError) as error:
            garbled = Garbled(f"the process sent what is not a message: {error}")
            self._reading = False
        self._received(messages, garbled)
        return len(data)

    def _split(self, data: bytes, messages: list[Message]) -> None:
        coming: bytes | bytearray = data
        if self._coming:
            self._coming += data
            coming = self._coming
        start, end = 0, len(coming)
        while start + HEADER <= end:
            begin = start + HEADER
            size = int.from_bytes(coming[start:begin], "big")
            if size > MOST_BYTES:
                raise Garbled(f"it would have {size:,} bytes")
            if begin + size > end:
                break
            messages.append(_decode(coming[begin : begin + size]))
            start = begin + size
        if coming is not data:
            del self._coming[:start]
        elif start < end:
            self._coming += memoryview(data)[start:]
