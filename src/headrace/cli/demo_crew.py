"""The worker processes of `headrace demo`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, Process
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = (sys.executable, "-m", "headrace", "worker", "headrace.cli.demo_tasks:app")
SLOTS = 10
# Only jobs of a demo that was broken off still run at the end: nobody waits for them.
_DRAIN = 1
_GRACE = 5.0
_TAIL = 15


class WorkerEnded(Exception):
    """A worker process ended that nobody had told to."""


@dataclass
class Hand:
    """One worker process. No other worker reads `own_queue`; `name` is what the store calls
    the worker; empty until it has reported in."""

    process: Process
    own_queue: str
    name: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass
class Crew:
    """The worker processes that should be running; ended on leaving, however one leaves."""

    home: Path
    hands: list[Hand] = field(default_factory=list)

    async def __aenter__(self) -> Crew:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(_end(hand.process) for hand in self.hands))

    async def hire(self) -> Hand:
        """Start a worker process; it may take a moment until it works."""
        own_queue = f"own-{len(self.hands) + 1}"
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
                # Ctrl-C goes to a terminal's whole group, but who ends the workers is the demo.
                start_new_session=True,
            )
        hand = Hand(process, own_queue)
        self.hands.append(hand)
        return hand

    async def kill(self, hand: Hand) -> None:
        """End a worker the hard way, with SIGKILL: it has no moment to tidy up."""
        hand.process.kill()
        await hand.process.wait()
        self.hands.remove(hand)

    def check_alive(self) -> None:
        """Raises `WorkerEnded` if a process is gone that should be there."""
        for hand in self.hands:
            code = hand.process.returncode
            if code is not None:
                raise WorkerEnded(f"worker process {hand.pid} ended with exit code {code}")

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
