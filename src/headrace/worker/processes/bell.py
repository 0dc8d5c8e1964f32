"""Wakes a worker when a process has said enough."""

from __future__ import annotations

import contextlib
import os
import time

# Results that the worker is woken for together, and seconds and bytes after which it is woken for
# fewer. It looks by itself now and then, in case a long run begins before.
_RESULTS = 16
_PAUSE = 0.001
_BYTES = 1 << 15


class Bell:
    """A pipe that a worker waits at, instead of at the socket on which results come: a process
    sends each result when it is there, and wakes its worker for several."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self.writer, False)

    def hear(self) -> bool:
        """Whether the process can ring again; False once it is gone."""
        try:
            return bool(os.read(self.reader, 1 << 12))
        except BlockingIOError:
            return True

    def give_away(self) -> None:
        """The process has its end now."""
        os.close(self.writer)

    def close(self) -> None:
        os.close(self.reader)


class BellRope:
    """The end of the process."""

    def __init__(self, writer: int) -> None:
        self._writer = writer
        self._results = 0
        self._bytes = 0
        self._rung_at = 0.0

    def count(self, size: int) -> None:
        """A result of this size is sent."""
        self._results += 1
        self._bytes += size
        late = time.monotonic() - self._rung_at > _PAUSE
        if late or self._results >= _RESULTS or self._bytes > _BYTES:
            self.ring()

    def rest(self) -> None:
        """Nothing more is sent for now."""
        if self._results:
            self.ring()

    def ring(self) -> None:
        self._results = self._bytes = 0
        self._rung_at = time.monotonic()
        # A full pipe has rung often enough.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._writer, b"!")
