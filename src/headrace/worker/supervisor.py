"""Keeps several worker processes running, from a parent that does no work itself."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from headrace.worker.parent import die_with

log = logging.getLogger("headrace.supervisor")

# Tells a worker process which process supervises it.
SUPERVISOR = "HEADRACE_SUPERVISOR"

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# After so many seconds the next end of a process is taken as a new trouble, not the same again.
_SETTLED = 60.0
# A wrong option or an unreachable store shows within so many seconds.
_YOUNG = 10.0
_WRONG_USE = 2


class Process(Protocol):
    """What the supervisor needs of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def send_signal(self, sig: int, /) -> None: ...


class _Seat:
    """A place for one process, and when it is to be filled again."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.started_at = 0.0
        self.pause = 0.0
        self.due_at = float("-inf")


class Supervisor:
    """Runs `count` processes. One that ends although nobody told it to is replaced, after a pause
    that doubles while this goes on. If the first ones end at once and say that they are used
    wrongly, all is stopped, for nothing would get better; later on that is a trouble like others,
    such as a store that is away while one process is replaced."""

    def __init__(
        self,
        count: int,
        start: Callable[[], Process],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seats = [_Seat() for _ in range(count)]
        self._start = start
        self._monotonic = monotonic
        self._proven = False
        self._codes: list[int] = []
        self.stopping = False

    @property
    def finished(self) -> bool:
        return self.stopping and not any(seat.process for seat in self._seats)

    @property
    def exit_code(self) -> int:
        """The worst of what the processes ended with since the stop: 3 over 2 over 1 over 0."""
        return max(map(_severity, self._codes), default=0)

    def run(self) -> int:
        """Supervise until SIGTERM or SIGINT, and until all processes have ended; the exit code,
        with which this process should end. From then on both signals are ignored."""
        with _Signals() as signals:
            while True:
                rest = self.step()
                if self.finished:
                    return self.exit_code
                for number in signals.wait(rest):
                    if number != signal.SIGCHLD:
                        self.stop()

    def step(self) -> float | None:
        """Look after every process once. The seconds until one is to be started; None if only the
        end of a process, or a signal, can give something to do."""
        for seat in self._seats:
            code = seat.process.poll() if seat.process else None
            if code is not None:
                self._note_end(seat, code)
        if self.stopping:
            return None
        for seat in self._seats:
            if seat.process is None and seat.due_at <= self._monotonic():
                self._fill(seat)
        due = [seat.due_at for seat in self._seats if seat.process is None]
        return max(min(due) - self._monotonic(), 0.0) if due else None

    def stop(self) -> None:
        """Tell all processes to stop; again, and they hurry."""
        self.stopping = True
        for seat in self._seats:
            if seat.process is not None:
                # SIGTERM for SIGINT too: a process that is still starting then leaves quietly.
                seat.process.send_signal(signal.SIGTERM)

    def _fill(self, seat: _Seat) -> None:
        try:
            seat.process = self._start()
        except OSError as error:
            self._postpone(seat)
            log.error("no worker process can be started: %s; next try in %g s", error, seat.pause)
            return
        seat.started_at = self._monotonic()
        log.info("worker process %d started", seat.process.pid)

    def _note_end(self, seat: _Seat, code: int) -> None:
        pid = seat.process.pid if seat.process else 0
        lived = self._monotonic() - seat.started_at
        self._proven = self._proven or self._longest_life() >= _YOUNG
        seat.process = None
        if self.stopping:
            self._codes.append(code)
            log.info("worker process %d %s", pid, _how(code))
        elif code == _WRONG_USE and not self._proven:
            self._codes.append(code)
            log.error("worker process %d %s at its start; giving up", pid, _how(code))
            self.stop()
        else:
            seat.pause = 0.0 if lived >= _SETTLED else seat.pause
            self._postpone(seat)
            log.warning(
                "worker process %d %s after %.1f s; a new one starts in %g s",
                *(pid, _how(code), lived, seat.pause),
            )

    def _postpone(self, seat: _Seat) -> None:
        seat.pause = min(max(seat.pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        seat.due_at = self._monotonic() + seat.pause

    def _longest_life(self) -> float:
        now = self._monotonic()
        return max(now - seat.started_at for seat in self._seats if seat.process)


class _Signals:
    """SIGTERM, SIGINT and SIGCHLD as something that can be waited for, within `with`."""

    def __enter__(self) -> _Signals:
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
        """The signals that came; waits for the first, up to so many seconds."""
        ready, _, _ = select.select([self._ours], [], [], seconds)
        return list(self._ours.recv(4096)) if ready else []

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


def start_process(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a worker process that this one supervises."""
    return subprocess.Popen(
        command,
        env={**os.environ, SUPERVISOR: str(os.getpid())},
        stdin=subprocess.DEVNULL,
        # A Ctrl-C in the terminal is for the supervisor: its processes hear of it once, from it.
        start_new_session=True,
    )


def follow_supervisor() -> None:
    """Have this process sent SIGTERM when its supervisor, if it has one, is gone, even by SIGKILL;
    at once if it is gone already."""
    # Taken out: processes that this one starts are not the supervisor's.
    supervisor = os.environ.pop(SUPERVISOR, None)
    if supervisor is None:
        return
    die_with(int(supervisor), signal.SIGTERM)


def _severity(code: int) -> int:
    if code in (-signal.SIGTERM, -signal.SIGINT):
        # Killed by the stop itself, before it could listen: it had not taken a job.
        return 0
    return code if code in (0, 1, 2, 3) else 2


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
