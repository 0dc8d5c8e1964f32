"""Ends the children of handlers that fork: a job belongs to the process that took it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from weakref import WeakSet

_forks = 0
_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def _count_fork() -> None:
    global _forks
    _forks += 1
    for loop in _loops:
        if not loop.is_closed():
            # Else the worker's loop would take the child's signals for its own.
            signal.set_wakeup_fd(-1)
            # A child that comes back to the loop would share its sockets with the worker. In debug
            # mode a loop refuses that from a thread, whose child has no way back to it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon(os._exit, 0)


os.register_at_fork(after_in_child=_count_fork)


def guard_loop() -> None:
    """End each child that a handler forks once it comes back to this loop."""
    _loops.add(asyncio.get_running_loop())


def forks() -> int:
    """The number of forks between the first process and this one. When it changes, this is no
    longer the worker but a child that a handler forked."""
    return _forks


def end_if_forked(since: int) -> None:
    """End this process if it is a child of the one in which `forks` gave `since`: a handler forked
    and its child came back, but the job belongs to the parent."""
    if _forks != since:
        os._exit(0)
