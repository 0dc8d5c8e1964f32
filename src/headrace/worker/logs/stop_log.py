"""Says what a worker that stops is waiting for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from headrace.core.display import length_text, plural
from headrace.worker.run.run import Run

log = logging.getLogger("headrace.worker")

_EVERY = 5.0
_NAMED = 5


class StopLog:
    """Logs the runs that a stop waits for: at once, and every five seconds until `close`."""

    def __init__(self, worker: str, runs: Callable[[], Sequence[Run]], ends_at: float) -> None:
        self._worker = worker
        self._runs = runs
        self._ends_at = ends_at
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._say("worker %s stops, and takes no more jobs; it waits")
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._again)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _again(self) -> None:
        self._say("worker %s still waits")
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._again)

    def _say(self, what: str) -> None:
        runs = self._runs()
        left = max(self._ends_at - time.monotonic(), 0.0)
        if not runs:
            log.info("worker %s stops", self._worker, extra={"worker": self._worker, "running": 0})
            return
        log.info(
            f"{what} up to %.0f s for %s: %s",
            *(self._worker, left, plural(len(runs), "run"), _names(runs)),
            extra={
                "worker": self._worker,
                "running": len(runs),
                "jobs": _ids(runs),
            },
        )


def report_cut(runs: Sequence[Run]) -> None:
    """Log that these runs are ended before they are done."""
    if runs:
        log.warning(
            "%s cut short, to run again: %s",
            *(plural(len(runs), "run is", "runs are"), _names(runs)),
            extra={"running": len(runs), "jobs": _ids(runs)},
        )


def _ids(runs: Sequence[Run]) -> list[str]:
    return [run.delivery.id_text for run in runs[:_NAMED]]


def _names(runs: Sequence[Run]) -> str:
    """Task and id of the first few, and how many there are besides."""
    now = time.monotonic()
    names = [f"{run.task.name} {run.delivery.id_text}{_since(run, now)}" for run in runs[:_NAMED]]
    more = len(runs) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _since(run: Run, now: float) -> str:
    return f" (for {length_text(now - run.started)})" if run.started else ""
