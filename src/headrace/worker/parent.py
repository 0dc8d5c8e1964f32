"""A process that does not outlive the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1


def die_with(parent: int, how: signal.Signals) -> None:
    """Have this process sent a signal when `parent` is gone, even by SIGKILL, which cannot tell its
    children; at once if it is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)
    else:
        threading.Thread(target=_watch, args=(parent, how), daemon=True).start()
    # It may have died before the kernel was asked to tell.
    if os.getppid() != parent:
        os.kill(os.getpid(), how)


def _watch(parent: int, how: signal.Signals) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), how)
