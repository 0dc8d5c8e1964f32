"""What the acts of the demo share: the stage, the workers and the counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from headrace import Job
from headrace.demo.stage import Stage
from headrace.demo.workers import DemoWorkers

R = TypeVar("R")

# What is waited for takes seconds; this is for machines that have other things to do.
PATIENCE = 30.0
FRAME = 0.05


@dataclass
class ShowCounts:
    """What the summary counts."""

    jobs: int = 0
    events: int = 0
    retries: int = 0
    replayed: int = 0
    taken_over: int = 0


@dataclass
class Show:
    """What every act works with."""

    stage: Stage
    workers: DemoWorkers
    counts: ShowCounts = field(default_factory=ShowCounts)

    async def results(self, jobs: Sequence[Job[R]], *, bar: bool = True) -> list[R]:
        """The results of the jobs, in order; shows a bar while they run."""
        began = time.monotonic()
        waits = [asyncio.create_task(job.result(PATIENCE)) for job in jobs]
        pending = set(waits)
        try:
            while pending:
                _, pending = await asyncio.wait(
                    pending, timeout=FRAME, return_when=asyncio.FIRST_COMPLETED
                )
                self.workers.check_alive()
                if bar:
                    done, spent = len(waits) - len(pending), time.monotonic() - began
                    note = f"{done:>2}/{len(waits)}  {spent:.1f} s"
                    self.stage.bar(done, len(waits), note)
        finally:
            for wait in pending:
                wait.cancel()
        if bar:
            self.stage.keep()
        return [wait.result() for wait in waits]

    async def result(self, job: Job[R]) -> R:
        (value,) = await self.results([job], bar=False)
        return value
