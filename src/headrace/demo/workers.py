"""The worker processes of the demo, and the show: what its acts share."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headrace import Job
from headrace.demo.stage import Stage

COMMAND = (sys.executable, "-m", "headrace", "worker", "headrace.demo.shop:app")
SLOTS = 10
# Only jobs of a demo that was broken off still run at the end: nobody waits for them.
_DRAIN = 1
_GRACE = 5.0
_TAIL = 15


class WorkerEnded(Exception):
    """A worker process ended by itself."""


@dataclass
class DemoWorker:
    """One worker process. No other worker reads `own_queue`. `name` is what the store calls it,
    empty until it has reported in."""

    process: Process
    own_queue: str
    name: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass
class DemoWorkers:
    """The worker processes that should be running. All are ended on exit."""

    home: Path
    running: list[DemoWorker] = field(default_factory=list)

    async def __aenter__(self) -> DemoWorkers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(_end(worker.process) for worker in self.running))

    async def start(self) -> DemoWorker:
        """Start a worker process. It reports in a moment later."""
        own_queue = f"own-{len(self.running) + 1}"
        queues = f"default,{own_queue},shipping@paid,billing@paid"
        options = ("-Q", queues, "-c", str(SLOTS), "--drain", str(_DRAIN))
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *COMMAND,
                *options,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                # Elsewhere a file of the user's could take the place of a module.
                cwd=self.home,
                # Ctrl-C goes to a terminal's whole group, but the demo itself ends the workers.
                start_new_session=True,
            )
        worker = DemoWorker(process, own_queue)
        self.running.append(worker)
        return worker

    async def kill(self, worker: DemoWorker) -> None:
        """End a worker with SIGKILL: it cannot tidy up."""
        worker.process.kill()
        await worker.process.wait()
        self.running.remove(worker)

    def check_alive(self) -> None:
        """Raises `WorkerEnded` if a process has ended by itself."""
        for worker in self.running:
            code = worker.process.returncode
            if code is not None:
                raise WorkerEnded(f"worker process {worker.pid} ended with exit code {code}")

    def last_words(self) -> list[str]:
        """The last lines that the workers wrote."""
        if not self._log.exists():
            return []
        return self._log.read_text(errors="replace").splitlines()[-_TAIL:]

    @property
    def _log(self) -> Path:
        return self.home / "workers.log"


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except (TimeoutError, asyncio.CancelledError):
        # No patience left, be it ours or that of someone who pressed Ctrl-C again.
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


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
