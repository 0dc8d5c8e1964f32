"""The signals that end a process of ours, and signals as something that can be waited for."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import select
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

# No signal has this number.
_WOKEN = 0
DUMP = signal.SIGUSR1
"""Asks a process for the stacks of its threads."""


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT, SIGQUIT, and SIGHUP, which comes when the terminal is closed or the
    connection to it is lost; not if it is ignored, as under nohup."""
    ending = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending


Handler = Callable[[int, FrameType | None], object]

_handled: dict[signal.Signals, Handler] = {}
"""What `handle` has set, in this process."""
_forking = threading.local()


def handle(number: signal.Signals, handler: Handler) -> None:
    """Handle a signal in this process, but not in those that functions of tasks fork: there it does
    what it does in a program that has just been started."""
    signal.signal(number, handler)
    _handled[number] = handler


def _before_fork() -> None:
    # One that comes to the child early must not be lost between our handler and its own.
    if _handled:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_handled, DUMP})


def _after_fork() -> None:
    mask, _forking.mask = getattr(_forking, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_fork() -> None:
    if not _handled:
        return
    for number, handler in _handled.items():
        # Not those that the app has set itself.
        if signal.getsignal(number) is handler:
            is_int = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_int else signal.SIG_DFL)
    _handled.clear()
    faulthandler.unregister(DUMP)
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_fork)


def dump_stacks_on_request() -> None:
    """From now on `DUMP` writes the stacks of all threads to stderr. Without that it would end the
    process at once. The interpreter is not needed for it, so it works while that hangs."""
    if _can_dump():
        faulthandler.register(DUMP, all_threads=True)
    else:
        signal.signal(DUMP, signal.SIG_IGN)
    # One that came before is written now, see `dump_held_back`.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {DUMP})


def _can_dump() -> bool:
    """Whether there is a stderr to write to."""
    try:
        return sys.stderr.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False


@contextlib.contextmanager
def dump_held_back() -> Iterator[None]:
    """A process that is started within this gets `DUMP` only from `dump_stacks_on_request` on: it
    must not die of one that comes while its interpreter starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {DUMP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_go_of_closed_terminal() -> None:
    """Discard what is written to a terminal that was closed, instead of failing: a last line must
    not change how a process ends."""
    for number in (1, 2):
        try:
            termios.tcgetattr(number)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), number)


class ProcessSignals:
    """`ending_signals`, SIGCHLD and `DUMP` as something that can be waited for, within `with`. At
    `DUMP`, this process writes its own stacks too."""

    def __enter__(self) -> ProcessSignals:
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs
        for end in (self._ours, theirs):
            end.setblocking(False)
        self._former_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        # The interpreter writes each signal's number to the socket; the handler need do nothing.
        for number in (*ending_signals(), signal.SIGCHLD, DUMP):
            signal.signal(number, lambda *_: None)
        return self

    def wait(self, seconds: float | None) -> list[int]:
        """The signals that came; waits up to `seconds` for the first, or for `wake`."""
        ready, _, _ = select.select([self._ours], [], [], seconds)
        came = self._ours.recv(4096) if ready else b""
        if DUMP in came and _can_dump():
            faulthandler.dump_traceback()
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
        for number in (*ending_signals(), DUMP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(self._former_fd)
        self._ours.close()
        self._theirs.close()
