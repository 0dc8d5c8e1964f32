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
