"""Processes that stand still until they are let go. A stop by a signal ends with the next SIGCONT,
which whatever runs the tests may send; a stop by a tracer does not."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_ALL_KINDS = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Standstill:
    """All threads of one process stand still, from now until `end`, which the same thread calls.
    Meanwhile nobody may wait for the end of the process: a tracer is told of stops the same way."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._held: set[int] = set()
        if sys.platform != "linux":
            os.kill(pid, signal.SIGSTOP)
            return
        # Those that run may start others until they stand.
        while fresh := self._threads() - self._held:
            for thread in fresh:
                self._hold(thread)

    def end(self) -> None:
        for thread in self._held:
            _trace(_DETACH, thread)
        self._held.clear()
        if sys.platform != "linux":
            os.kill(self._pid, signal.SIGCONT)

    def _threads(self) -> set[int]:
        return {int(each.name) for each in Path(f"/proc/{self._pid}/task").iterdir()}

    def _hold(self, thread: int) -> None:
        _trace(_SEIZE, thread)
        _trace(_INTERRUPT, thread)
        os.waitpid(thread, _ALL_KINDS)
        self._held.add(thread)


def _trace(request: int, thread: int) -> None:
    nothing = ctypes.c_void_p(0)
    if _libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), nothing, nothing) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"a test cannot hold process {thread}: {os.strerror(number)}")
