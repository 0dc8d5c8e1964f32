"""The worker's end of a delivery that is settled by hand."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress

from headrace.errors import Defer, HeadraceError, Reject, RetryLater

Decision = RetryLater | Reject | Defer | None
"""The control exception that settles a delivery; None for ack."""


class DeliveryDropped(Exception):
    """The delivery was garbage-collected, or closed, before anyone decided on it."""


class ManualSettlement:
    """The worker's end of a delivery that is settled by hand. The worker awaits `decided`, writes
    the outcome, and calls `written`. It must not keep the delivery itself alive, nor a context that
    holds it: a delivery that is garbage-collected unused counts as dropped.

    May be decided in any thread; awaited in the loop in which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._decision: asyncio.Future[Decision] = self._loop.create_future()
        self._answer: Future[None] = Future()
        # Popping the one item of a list is atomic: of two threads that decide at the same time,
        # only one can.
        self.undecided: list[bool] = [True]
        self.reason: HeadraceError | None = None
        self.trouble: BaseException | None = None
        """Why the decision is not written."""

    def close(self, reason: HeadraceError | None = None) -> None:
        """End it without a decision: the run ended in another way. Deciding, now or later, raises
        the first `reason` given, or `DeliveryUsed`. In the loop only."""
        self.undecided.clear()
        self._set(None, DeliveryDropped())
        if reason is not None:
            self.reason = self.reason or reason
            self.written(self.reason)

    async def decided(self) -> Decision:
        """The decision; `DeliveryDropped` if there will be none. May be awaited again after it was
        cancelled."""
        return await asyncio.shield(self._decision)

    def written(self, error: BaseException | None = None) -> None:
        """Report to the caller that decided: the store has the outcome or, with `error`, not."""
        if self._answer.done():
            return
        self.trouble = error
        if error is None:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(error)

    def decide(self, decision: Decision) -> Future[None]:
        """A future that is done when the outcome is written."""
        self._loop.call_soon_threadsafe(self._set, decision, None)
        return self._answer

    def drop(self) -> None:
        """Nobody can decide any more."""
        # The loop may have ended before the garbage was collected.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set, None, DeliveryDropped())

    def _set(self, decision: Decision, dropped: DeliveryDropped | None) -> None:
        if self._decision.done():
            return
        if dropped is None:
            self._decision.set_result(decision)
        else:
            self._decision.set_exception(dropped)
            # Nobody may be waiting: mark the exception as seen.
            self._decision.exception()
