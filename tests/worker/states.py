"""Waiting for jobs to get somewhere."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace import Job, State

# Far beyond what anything here takes on a slow machine.
LONG = 60.0


async def reach(jobs: Sequence[Job[Any]], *states: State) -> list[State]:
    """The states of the jobs, once each is in one of these."""
    ends_at = time.monotonic() + LONG
    while True:
        found = [await job.status() for job in jobs]
        if set(found) <= set(states):
            return found
        assert time.monotonic() < ends_at, f"{found}, not {states}"
        await asyncio.sleep(0.005)


async def until(so: Callable[[], object]) -> None:
    ends_at = time.monotonic() + LONG
    while not so():
        assert time.monotonic() < ends_at, "it did not come to that"
        await asyncio.sleep(0.001)


class AtOnce:
    """Counts the runs that are inside of it: now, at the most, and those that have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = self.ended = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1
            self.ended += 1
