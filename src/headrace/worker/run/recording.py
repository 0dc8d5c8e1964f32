"""Between the executor and whoever records deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.core.job.outcome import Outcome
from headrace.worker.consume.settler import Settle
from headrace.worker.run.in_flight import InFlight
from headrace.worker.run.run import Run


class Recording(Protocol):
    """Has deliveries recorded when their outcomes are known, before these are settled. Must not
    fail, nor be ended by a cancellation."""

    def attach(self, judge: Callable[[Run, BaseException], Outcome]) -> None:
        """How to find the outcome of a delivery that fails because it could not be recorded."""
        ...

    async def outcomes(self, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Record runs; what is to be settled."""
        ...


class Recorder:
    """Has runs recorded, and waited for until they are."""

    def __init__(self, recording: Recording, in_flight: InFlight, settle: Settle) -> None:
        self._recording = recording
        self._in_flight = in_flight
        self._settle = settle
        self._loop = asyncio.get_running_loop()

    async def outcomes(
        self, whole: Run, runs: Sequence[Run], outcomes: Sequence[Outcome]
    ) -> list[Outcome]:
        """What is to be settled, once the runs, which `whole` consists of, are recorded. They have
        ended, each in its time: nobody is to end them meanwhile."""
        self._in_flight.running.discard(whole)
        self._in_flight.late.add(whole.future)
        try:
            return await self._recording.outcomes(runs, outcomes)
        finally:
            self._in_flight.late.discard(whole.future)

    def settle(self, run: Run, outcome: Outcome) -> asyncio.Task[None]:
        """Settle a run when it is recorded; ends when that is done."""
        late = self._loop.create_task(self._settle_recorded(run, outcome))
        self._in_flight.late.add(late)
        late.add_done_callback(self._in_flight.late.discard)
        return late

    async def _settle_recorded(self, run: Run, outcome: Outcome) -> None:
        (outcome,) = await self._recording.outcomes([run], [outcome])
        self._settle(run.delivery, outcome)
