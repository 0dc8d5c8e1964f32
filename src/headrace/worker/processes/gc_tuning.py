"""Python's garbage collector in a process that does nothing but run jobs."""

from __future__ import annotations

import gc


def tune_gc() -> None:
    """Look for garbage less often. Jobs come and go by the hundred and hardly ever form cycles, so
    looking after every 700 objects costs a fifth of the throughput; and what was imported stays for
    good. Not for a process that a worker shares with other code."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
