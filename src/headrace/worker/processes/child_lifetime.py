"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.worker.processes.environment import passed_on
from headrace.worker.processes.signals import dump_held_back

# The variable that gives a worker process the pid of its supervisor.
SUPERVISOR = "HEADRACE_SUPERVISOR"

STORE_LOST = 69
"""The exit code of a supervised process whose store was away for longer than `max_reconnect`."""
_PR_SET_PDEATHSIG = 1


class Process(Protocol):
    """What the supervisor needs of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def send_signal(self, sig: int, /) -> None: ...


def start_process(
    command: Sequence[str], settings: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a worker process that this one supervises, with these further variables."""
    with dump_held_back():
        return subprocess.Popen(
            command,
            env={**passed_on(), **(settings or {}), SUPERVISOR: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            # A Ctrl-C in the terminal is for the supervisor, which signals its processes once.
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


def die_with(parent: int, how: signal.Signals) -> None:
    """Have this process sent a signal when `parent` is gone, even by SIGKILL; at once if it is gone
    already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)
    else:
        threading.Thread(target=_watch, args=(parent, how), daemon=True).start()
    # It may have died before the kernel was asked.
    if os.getppid() != parent:
        os.kill(os.getpid(), how)


def _watch(parent: int, how: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), how)


def severity(code: int) -> int:
    """The exit code that a process ended with, as one of ours: the larger, the worse."""
    if code in (-signal.SIGTERM, -signal.SIGINT):
        # Killed by the stop itself, before it could listen: it had not taken a job.
        return 0
    return code if code in (0, 1, 2, 3) else 2


def how_it_ended(code: int) -> str:
    """How a process ended, for the log."""
    if code == STORE_LOST:
        return "ended, as its store was away for too long"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
