"""Tasks for a pool of processes, and a pool whose runs can be awaited."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from headrace import Headrace
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import decode_envelope
from headrace.core.task.call import Call
from headrace.worker.processes.process_pool import ProcessPool
from headrace.worker.run.look_ahead import LookAhead
from headrace.worker.run.run import Run
from headrace.worker.run.run_settings import RunSettings
from tests.worker.states import until

# At the top level, as tasks that another process must import have to be.
app = Headrace("memory://", max_payload=1 << 28)


@app.task(run_in="process")
def note(folder: str, what: str) -> int:
    """Leave one line, and say which process did."""
    with Path(folder, "notes").open("a") as notes:
        notes.write(f"{what}\n")
    return os.getpid()


@app.task(run_in="process", timeout=60)
def hold(folder: str, gate: str = "gate") -> int:
    """Go on until the gate is opened."""
    Path(folder, f"{gate}-pid").write_text(str(os.getpid()))
    while not Path(folder, gate).exists():
        time.sleep(0.005)
    return os.getpid()


@app.task(run_in="process")
def die(how: str) -> None:
    if how == "exit":
        os._exit(7)
    if how == "half a reply":
        os.write(_channel(), (1000).to_bytes(8, "big") + b"only this")
        os._exit(7)
    if how == "leaving a child":
        if os.fork():
            os._exit(7)
        # It has the ends of all that connects the process with its worker.
        time.sleep(5)
        os._exit(0)
    os.kill(os.getpid(), signal.Signals[how])


@app.task(run_in="process")
def scribble() -> None:
    os.write(_channel(), b"This is not a message.")
    # Until the process is killed for it; what it says from here on cannot be read.
    time.sleep(600)


@app.task(run_in="process")
def echo(data: bytes) -> bytes:
    return data


def _channel() -> int:
    return int(sys.argv[2])


class Far(LookAhead):
    """Lets a process hold as many runs as there are, whatever they take."""

    def __init__(self, runs: int = 100) -> None:
        super().__init__()
        self._runs = runs

    def count(self, serving: int) -> int:
        return self._runs * serving


def _now_ms() -> int:
    return int(time.time() * 1000)


class AwaitedPool(ProcessPool):
    """Remembers how each run ended."""

    def __init__(
        self,
        most: int = 1,
        look_ahead: LookAhead | None = None,
        slow_after: float = 600.0,
        max_jobs: int | None = None,
    ) -> None:
        super().__init__(most, look_ahead or Far(), slow_after, max_jobs=max_jobs)
        self.settings = RunSettings("worker", None, 3, 1 << 30, _now_ms)
        self.ends: list[tuple[Run, bytes | None, BaseException | None]] = []

    def start(self, call: Call[Any]) -> Run:
        """Submit the run of a call."""
        run = self.made(call)
        self.submit(run, lambda *end: self.ends.append(end))
        return run

    def made(self, call: Call[Any]) -> Run:
        envelope = call.parcel(_now_ms()).envelope
        run = Run(LeasedDelivery("default", 1, envelope), self.settings)
        run.envelope = decode_envelope(envelope)
        run.delivery.job_id = run.envelope.job_id
        run.task = app.tasks[run.envelope.task]
        return run

    async def end_of(self, run: Run) -> bytes | BaseException | None:
        """The value or the error with which a run ended, once it has."""
        await until(lambda: any(one is run for one, _, _ in self.ends))
        ((value, error),) = [(value, error) for one, value, error in self.ends if one is run]
        return value if error is None else error


def notes_in(folder: Path) -> list[str]:
    """What `note` was called with, in order."""
    notes = folder / "notes"
    return notes.read_text().split() if notes.exists() else []
