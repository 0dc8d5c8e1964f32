"""Runs whose function settles its event itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.client.topic.manual_settlement import Decision, DeliveryDropped, ManualSettlement
from headrace.core.job.outcome import LEFT, Outcome
from headrace.errors import DeliveryUsed, HeadraceError, LeaseLost, TaskControl
from headrace.worker.run.fork_guard import end_if_forked, forks
from headrace.worker.run.outcomes import Outcomes
from headrace.worker.run.run import Run

_FOREVER = float("inf")
UNRECORDED = "this could not be recorded, so the event fails; its retry policy says what follows"

Enter = Callable[[Run], Awaitable[Any]]


class ManualRun:
    """A function, and the decision about its delivery: by the function, or later by other code that
    has the delivery."""

    def __init__(self, run: Run, enter: Enter) -> None:
        self._run = run
        run.manual = manual = ManualSettlement()
        self.manual = manual
        self._function = asyncio.ensure_future(_enter(run, enter))
        self._deciding = asyncio.ensure_future(manual.decided())

    async def outcome(self, outcomes: Outcomes) -> Outcome:
        """The outcome that was decided, or that follows if the function ends without a decision."""
        try:
            decision = await self._decided()
            if decision is not None:
                raise decision
            return outcomes.of_value(self._run, None)
        except DeliveryDropped:
            return LEFT
        except BaseException as error:
            self.manual.close(why_too_late(self._run) or _failed(self._run, error))
            return outcomes.of_error(self._run, error)

    async def _decided(self) -> Decision:
        """The decision. Raises `DeliveryDropped`, or what the function raised before it decided. If
        this is cancelled, so is the function, and nothing can be decided any more."""
        try:
            return await self._decision()
        except asyncio.CancelledError:
            self.manual.close(why_too_late(self._run))
            await self._stop_function()
            self._raise_last_word()
            raise
        finally:
            self._deciding.cancel()

    def _raise_last_word(self) -> None:
        """Raise what the function said when it was asked to end, because it takes too long."""
        if self._run.timed_out and not self._function.cancelled():
            error = self._function.exception()
            if isinstance(error, TaskControl):
                raise error

    @property
    def goes_on(self) -> bool:
        return not self._function.done()

    async def rest(self, outcomes: Outcomes) -> None:
        """Wait for the end of a function that has settled its event and goes on, as long as it may
        run; an error is logged."""
        left = max(self._run.ends_at - time.monotonic(), 0.0)
        try:
            await asyncio.wait((self._function,), timeout=None if left == _FOREVER else left)
        finally:
            if self.goes_on:
                await self._stop_function()
        error = None if self._function.cancelled() else self._function.exception()
        if error is not None:
            outcomes.note(self._run, error)

    async def _decision(self) -> Decision:
        deciding, function = self._deciding, self._function
        await asyncio.wait((function, deciding), return_when=asyncio.FIRST_COMPLETED)
        if not deciding.done() or deciding.exception() is not None:
            # Nothing is decided, or the delivery was dropped: if the function fails, that counts.
            if deciding.done():
                await asyncio.wait((function,))
            function.result()
            self._run.let_go()
        return await deciding

    async def _stop_function(self) -> None:
        self._function.cancel()
        await asyncio.wait((self._function,))
        if not self._function.cancelled():
            # Read, so that asyncio does not warn: it is no outcome any more.
            self._function.exception()


def why_too_late(run: Run) -> HeadraceError | None:
    """The error of settling the event of a run that was ended before; None if it was not."""
    event = f"event {run.delivery.id_text}"
    if run.lease_lost:
        return LeaseLost(f"{event} went to another worker before it was settled")
    if run.cancelled:
        return DeliveryUsed(f"{event} was cancelled before it was settled")
    if run.timed_out:
        return DeliveryUsed(
            f"{event} was not settled within its timeout of {run.timed_out:g} s, so the attempt "
            "has failed"
        )
    if run.handed_back:
        return DeliveryUsed(
            f"{event} was not settled when its worker stopped, which handed it back: it comes again"
        )
    return None


def _failed(run: Run, error: BaseException) -> DeliveryUsed | None:
    if isinstance(error, TaskControl):
        return None
    return DeliveryUsed(
        f"event {run.delivery.id_text} was not settled when its function failed with "
        f"{type(error).__name__}, and that counts"
    )


async def _enter(run: Run, enter: Enter) -> Any:
    before = forks()
    try:
        return await enter(run)
    finally:
        end_if_forked(before)
