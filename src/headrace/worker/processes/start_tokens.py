"""Who begins a run: the process that has it, or nobody, because the worker took it back."""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import sys
import tempfile
import termios
from collections.abc import Sequence
from struct import Struct

_token = Struct("=I")
_SIZE = _token.size
# More than a pipe holds anywhere.
_ALL = 1 << 20
_NUMBERS = 1 << 32


class StartTokens:
    """A pipe with a token for each run that a process may begin, in order. The process takes one
    right before it begins a run; the worker can take back those that are left, at any time. Both
    read from the same pipe, so the kernel gives each token to one of them, even if the process is
    busy, stopped or dead."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        self._ended = False
        # For both ends of the reader: the worker must not wait, and the process polls.
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)

    def put(self, numbers: Sequence[int]) -> None:
        """Let the process begin these runs, after those before them."""
        if numbers:
            os.write(self._writer, b"".join(map(_token.pack, numbers)))

    def take_back(self) -> list[int]:
        """Take all that the process has not taken: these runs will not begin there."""
        try:
            data = os.read(self.reader, _ALL)
        except BlockingIOError:
            return []
        return [number for (number,) in _token.iter_unpack(data)]

    def left(self) -> int:
        """The number of tokens that the process has not taken."""
        answer = fcntl.ioctl(self.reader, termios.FIONREAD, bytes(4))
        return int.from_bytes(answer, sys.byteorder) // _SIZE

    def end(self) -> None:
        """The process leaves when it has taken all tokens, and looks for the next."""
        if not self._ended:
            self._ended = True
            os.close(self._writer)

    def close(self) -> None:
        self.end()
        os.close(self.reader)


class TakenTokens:
    """The pipe of tokens, in the process that takes them."""

    def __init__(self, reader: int) -> None:
        self._reader = reader
        self._poll = select.poll()
        self._poll.register(reader, select.POLLIN)

    def take(self) -> int:
        """The number of the next run; 0 if there is none now. `EOFError` if the worker has left."""
        try:
            data = os.read(self._reader, _SIZE)
        except BlockingIOError:
            return 0
        if not data:
            raise EOFError
        number: int = _token.unpack(data)[0]
        return number

    def wait(self) -> None:
        """Return when there may be a token."""
        self._poll.poll()


def after(number: int) -> int:
    """The number of the run after this one. 0 is none."""
    return (number + 1) % _NUMBERS or 1


class EntryMark:
    """Memory that a process shares with its worker: which function it has entered last, and when;
    and for which run it was set up. The worker can read it while the function holds the
    interpreter, or is stuck. Made by the worker; the process is given its descriptor."""

    SIZE = 24

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _shared_memory(self.SIZE) if descriptor is None else descriptor
        self._memory = mmap.mmap(self.descriptor, self.SIZE)
        self._numbers = memoryview(self._memory).cast("Q")
        self._times = memoryview(self._memory).cast("d")

    def write(self, number: int, at: float) -> None:
        # The time first: a number without its time would start a timeout too early.
        self._times[1] = at
        self._numbers[0] = number

    def read(self) -> tuple[int, float]:
        """The number of the run, and when its function was entered, by the monotonic clock."""
        return self._numbers[0], self._times[1]

    def begin_set_up(self, number: int) -> None:
        self._numbers[2] = number

    def had_set_up(self, number: int) -> bool:
        """Whether a set-up has begun for the run with this number."""
        return self._numbers[2] == number

    def close(self) -> None:
        self._numbers.release()
        self._times.release()
        self._memory.close()
        os.close(self.descriptor)


def _shared_memory(size: int) -> int:
    if sys.platform == "linux":
        descriptor = os.memfd_create("headrace")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, size)
    return descriptor
