"""Waiting for jobs to get somewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from headrace import Job, State


async def reach(jobs: Sequence[Job[Any]], *states: State) -> list[State]:
    """The states of the jobs, once each is in one of these."""
    while True:
        found = [await job.status() for job in jobs]
        if set(found) <= set(states):
            return found
        await asyncio.sleep(0.005)


async def until(so: Callable[[], object]) -> None:
    while not so():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


class AtOnce:
    """Counts the runs that are inside of it: now, at the most, and those that have ended."""

    def __init__(self) -> None:
        self.now = self.most = self.ended = 0

    def __enter__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        self.now -= 1
        self.ended += 1
