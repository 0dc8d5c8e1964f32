"""Runs whose function says itself what becomes of its event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.client.delivery import Decision, Dropped, Fate
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import LEFT, Outcome
from headrace.errors import AuditError, DeliveryUsed, HeadraceError, LeaseLost, TaskControl
from headrace.worker.run.in_flight import InFlight
from headrace.worker.run.outcomes import Outcomes
from headrace.worker.run.recording import Recorder
from headrace.worker.run.run import Run
from headrace.worker.run.runners import end_if_forked, forks

_FOREVER = float("inf")
_UNRECORDED = "this could not be recorded, so the event fails; its retry policy says what follows"

Enter = Callable[[Run], Awaitable[Any]]


class HandWork:
    """Takes such runs to their ends. `expect` is given the fate of each event, whom to tell that
    its outcome is written, before `close` is given the outcome."""

    def __init__(
        self,
        enter: Enter,
        outcomes: Outcomes,
        in_flight: InFlight,
        recorder: Recorder | None,
        expect: Callable[[LeasedDelivery, Fate], None],
        close: Callable[[Run, Outcome], object],
    ) -> None:
        self._enter = enter
        self._outcomes = outcomes
        self._in_flight = in_flight
        self._recorder = recorder
        self._expect = expect
        self._close = close
        self._forks = forks()

    async def work(self, run: Run) -> None:
        hand = HandRun(run, self._enter)
        outcome = await self.execute(run, hand)
        end_if_forked(self._forks)
        if self._recorder is not None and not run.abandoned:
            outcome = await self._recorded(self._recorder, run, hand, outcome)
        if not run.abandoned:
            self._expect(run.delivery, hand.fate)
            self._close(run, outcome)
        try:
            if hand.goes_on:
                await self._to_its_end(run, hand)
        finally:
            self._in_flight.leave(run)

    async def execute(self, run: Run, hand: HandRun) -> Outcome:
        """What its function says, or what comes of it if that says nothing."""
        try:
            decision = await hand.decision()
            if decision is not None:
                raise decision
            return self._outcomes.of_value(run, None)
        except Dropped:
            return LEFT
        except BaseException as error:
            hand.fate.close(why_too_late(run) or _failed(run, error))
            return self._outcomes.of_error(run, error)

    async def _recorded(
        self, recorder: Recorder, run: Run, hand: HandRun, outcome: Outcome
    ) -> Outcome:
        (known,) = await recorder.outcomes(run, [run], [outcome])
        # The function may go on, and be told to end.
        self._in_flight.running.add(run)
        if known is not outcome:
            hand.fate.written(AuditError(_UNRECORDED))
        return known

    async def _to_its_end(self, run: Run, hand: HandRun) -> None:
        """Wait for a function that goes on although its event is settled, and be waited for."""
        self._in_flight.outlast(run)
        self._in_flight.late.add(run.future)
        try:
            error = await hand.rest()
            if error is not None:
                self._outcomes.note(run, error)
        finally:
            self._in_flight.late.discard(run.future)


class HandRun:
    """A function on the one side, and on the other what is said of its delivery: while it runs, or
    after it, by whom it has given the delivery to."""

    def __init__(self, run: Run, enter: Enter) -> None:
        self._run = run
        run.fate = fate = Fate()
        self.fate = fate
        self._function = asyncio.ensure_future(_entered(run, enter))
        self._said = asyncio.ensure_future(fate.decided())

    async def decision(self) -> Decision:
        """What was said. Raises `Dropped`, or what the function raised before anything was said. If
        it is cancelled, so is the function, and nothing can be said any more."""
        try:
            return await self._decision()
        except asyncio.CancelledError:
            self.fate.close(why_too_late(self._run))
            await self._stop_function()
            raise
        finally:
            self._said.cancel()

    @property
    def goes_on(self) -> bool:
        return not self._function.done()

    async def rest(self) -> BaseException | None:
        """Wait for the end of a function that has settled its event and goes on, as long as it may
        run; what it raised."""
        left = max(self._run.ends_at - time.monotonic(), 0.0)
        try:
            await asyncio.wait((self._function,), timeout=None if left == _FOREVER else left)
        finally:
            if self.goes_on:
                await self._stop_function()
        return None if self._function.cancelled() else self._function.exception()

    async def _decision(self) -> Decision:
        said, function = self._said, self._function
        await asyncio.wait((function, said), return_when=asyncio.FIRST_COMPLETED)
        if not said.done() or said.exception() is not None:
            # Nothing was said yet, or it was let go of: if the function fails, that is what counts.
            if said.done():
                await asyncio.wait((function,))
            function.result()
            self._run.let_go()
        return await said

    async def _stop_function(self) -> None:
        self._function.cancel()
        await asyncio.wait((self._function,))
        if not self._function.cancelled():
            # What it raised on its way out is nobody's outcome any more.
            self._function.exception()


def why_too_late(run: Run) -> HeadraceError | None:
    """What is told to whoever wants to settle the event of a run that was ended before; None if it
    was not."""
    event = f"event {run.delivery.key_text}"
    if run.lease_lost:
        return LeaseLost(f"{event} went to another worker before it was settled")
    if run.cancelled:
        return DeliveryUsed(f"{event} was cancelled before it was settled")
    if run.timed_out:
        return DeliveryUsed(
            f"{event} was not settled within its timeout of {run.timed_out:g} s, so the attempt "
            "has failed"
        )
    if run.sent_away:
        return DeliveryUsed(
            f"{event} was not settled when its worker stopped, which handed it back: it comes again"
        )
    return None


def _failed(run: Run, error: BaseException) -> DeliveryUsed | None:
    if isinstance(error, TaskControl):
        return None
    return DeliveryUsed(
        f"event {run.delivery.key_text} was not settled when its function failed with "
        f"{type(error).__name__}, and that counts"
    )


async def _entered(run: Run, enter: Enter) -> Any:
    before = forks()
    try:
        return await enter(run)
    finally:
        end_if_forked(before)
