"""Signals as something that a process can wait for."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
from types import TracebackType

# No signal has this number.
_WOKEN = 0


class Signals:
    """SIGTERM, SIGINT and SIGCHLD as something that can be waited for, within `with`."""

    def __enter__(self) -> Signals:
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs
        for end in (self._ours, theirs):
            end.setblocking(False)
        self._former_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        # The interpreter writes each signal's number to the socket; the handler need do nothing.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        return self

    def wait(self, seconds: float | None) -> list[int]:
        """The signals that came; waits for the first, or for `wake`, up to so many seconds."""
        ready, _, _ = select.select([self._ours], [], [], seconds)
        came = self._ours.recv(4096) if ready else b""
        return [number for number in came if number != _WOKEN]

    def wake(self) -> None:
        """End a wait, from another thread."""
        # A full socket ends the wait too, and a closed one has nobody that waits.
        with contextlib.suppress(OSError):
            self._theirs.send(bytes([_WOKEN]))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # One more signal, now that all has ended, must not change how it ended.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(self._former_fd)
        self._ours.close()
        self._theirs.close()
