"""A task process's end of what connects it with its worker."""

from __future__ import annotations

import socket
import threading
from collections import deque

import msgspec

from headrace.worker.processes.bell import BellRope
from headrace.worker.processes.messages import (
    HEADER,
    OnceReply,
    RunDone,
    RunReply,
    RunRequest,
    RunRequests,
    framed,
)

_decode = msgspec.msgpack.Decoder(RunRequests | OnceReply).decode
_LARGE = 1 << 14


class ChildChannel:
    """Sends and receives messages. From any thread: a task may have started some, which report and
    ask while the next run is on its way."""

    def __init__(self, channel: socket.socket, bell: BellRope) -> None:
        self._socket = channel
        self._bell = bell
        self.sending = threading.RLock()
        self._receiving = threading.Lock()
        self._requests: deque[RunRequest] = deque()
        self._answers: deque[OnceReply] = deque()

    def send(self, message: msgspec.Struct) -> None:
        """Send a message whole, and have it read now."""
        data = framed(message)
        with self.sending:
            # Before: if it does not fit into the socket, the worker must make room.
            self._bell.ring()
            self._socket.sendall(data)
            self._bell.ring()

    def send_result(self, message: RunDone | RunReply) -> None:
        """Send a message that may be read with the next ones. It is out of this process: a later
        crash does not take it along."""
        data = framed(message)
        if len(data) > _LARGE:
            self.send(message)
            return
        with self.sending:
            self._socket.sendall(data)
            self._bell.count(len(data))

    def rest(self) -> None:
        """Nothing more is sent for now: have all read."""
        self._bell.rest()

    def request(self, number: int) -> RunRequest:
        """The run with this number, which the worker has sent or is sending. Those before it were
        taken back. `EOFError` if the worker has left."""
        with self._receiving:
            while True:
                while self._requests:
                    request = self._requests.popleft()
                    if request.number == number:
                        return request
                self._receive()

    def answer(self) -> OnceReply:
        """The next answer; one thread may wait for it at a time."""
        with self._receiving:
            while not self._answers:
                self._receive()
            return self._answers.popleft()

    def _receive(self) -> None:
        size = int.from_bytes(self._exactly(HEADER), "big")
        message = _decode(self._exactly(size))
        if isinstance(message, RunRequests):
            self._requests.extend(message.runs)
        else:
            self._answers.append(message)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)
