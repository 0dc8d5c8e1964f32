"""What the store tells of runs in its events."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from headrace.core.job.history import NO_HISTORY
from headrace.worker.run.run import BatchRun, Run


class Facts:
    """Notes with each delivery what its run was like, right before it is settled."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._ahead_ms = 0.0

    def look_at_clock(self) -> None:
        """See how far the store's clock is ahead of the monotonic one; not for each run."""
        self._ahead_ms = self._now_ms() - monotonic() * 1000

    def note(self, run: Run) -> None:
        delivery, started = run.delivery, run.started
        delivery.task = run.envelope.task
        if started:
            delivery.attempt = 1 if run.history is NO_HISTORY else run.attempt
            delivery.started_ms = int(started * 1000 + self._ahead_ms)
            delivery.took_us = int((monotonic() - started) * 1_000_000)

    def note_all(self, batch: BatchRun) -> None:
        """The same for each job of a batch: they began and ended together."""
        started_ms = took_us = 0
        if batch.started:
            started_ms = int(batch.started * 1000 + self._ahead_ms)
            took_us = int((monotonic() - batch.started) * 1_000_000)
        task = batch.envelope.task
        for run in batch.members:
            if not run.abandoned:
                delivery = run.delivery
                delivery.task, delivery.attempt = (
                    task,
                    1 if run.history is NO_HISTORY else run.attempt,
                )
                delivery.started_ms, delivery.took_us = started_ms, took_us
