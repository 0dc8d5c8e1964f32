"""An event in the hands of a subscription's function."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from headrace.core.topic.event import Event
from headrace.errors import ConfigError, Defer, DeliveryUsed, HeadraceError, Reject, RetryLater

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


class Delivery:
    """The event at hand. A parameter annotated `Delivery` is filled with it.

    With `ack="manual"` the event stays with this worker until one of `ack`, `retry`, `reject` or
    `defer` ends its handling, in the function or later; each returns when the store has
    written it, and only one can be used, once. `ack_sync` and its kind are for code in a thread. A
    delivery that is dropped without any of them goes to another worker when its lease ends.
    """

    def __init__(
        self,
        event: Event[Any],
        group: str,
        *,
        attempt: int = 1,
        fence: int = 1,
        redelivered: bool = False,
        ack: str = "manual",
        manual: ManualSettlement | None = None,
    ) -> None:
        self._manual = manual
        self._undecided = [True] if manual is None else manual.undecided
        self._ack = ack
        self.event = event
        """The event's metadata, and as `data` the event itself."""
        self.group = group
        self.attempt = attempt
        """Attempt number of this event in this group, starting at 1."""
        self.fence = fence
        """Grows whenever the event is taken from a worker that may still be at it."""
        self.redelivered = redelivered
        """Whether the event was delivered to this group before."""

    async def ack(self) -> None:
        """The event is done."""
        await self._decided(None)

    async def retry(self, delay: float | timedelta | None = None) -> None:
        """Handle it again after `delay`, or as the retry policy says; uses an attempt, and the last
        one makes the event dead."""
        await self._decided(RetryLater(delay))

    async def reject(self, reason: str = "the subscription rejected the event") -> None:
        """Give it up: it is dead, with this reason, whatever the retry policy says."""
        await self._decided(Reject(reason))

    async def defer(self, delay: float | timedelta) -> None:
        """Handle it again after `delay`, as if it had not come yet: uses no attempt."""
        await self._decided(Defer(delay))

    def ack_sync(self) -> None:
        """`ack` for functions that are not async."""
        self._decided_sync(None)

    def retry_sync(self, delay: float | timedelta | None = None) -> None:
        """`retry` for functions that are not async."""
        self._decided_sync(RetryLater(delay))

    def reject_sync(self, reason: str = "the subscription rejected the event") -> None:
        """`reject` for functions that are not async."""
        self._decided_sync(Reject(reason))

    def defer_sync(self, delay: float | timedelta) -> None:
        """`defer` for functions that are not async."""
        self._decided_sync(Defer(delay))

    @property
    def used(self) -> bool:
        """Whether the event was acknowledged, retried, deferred or rejected."""
        return not self._undecided

    async def _decided(self, decision: Decision) -> None:
        manual = self._taken()
        if manual is not None:
            # Shielded: a caller that stops waiting does not take back its decision.
            await asyncio.shield(asyncio.wrap_future(manual.decide(decision)))

    def _decided_sync(self, decision: Decision) -> None:
        _check_no_loop()
        manual = self._taken()
        if manual is not None:
            manual.decide(decision).result()

    def _taken(self) -> ManualSettlement | None:
        if self._ack != "manual":
            raise ConfigError(
                f"group {self.group!r} of topic {self.topic!r} acknowledges by itself: declare it "
                "with ack='manual', or raise RetryLater, Reject or Defer"
            )
        try:
            self._undecided.pop()
        except IndexError:
            raise self._why_closed() from None
        return self._manual

    def _why_closed(self) -> HeadraceError:
        if self._manual is not None and self._manual.reason is not None:
            return self._manual.reason
        return DeliveryUsed(
            f"the delivery of event {self.id} to group {self.group!r} was settled already"
        )

    def __del__(self) -> None:
        if self._manual is not None and self._undecided and self._ack == "manual":
            self._manual.drop()

    # What the event says of itself

    @property
    def id(self) -> str:
        """The event's id: the same in every attempt."""
        return self.event.id

    @property
    def topic(self) -> str:
        return self.event.topic

    @property
    def key(self) -> str | None:
        return self.event.key

    @property
    def type(self) -> str:
        return self.event.type

    @property
    def source(self) -> str | None:
        return self.event.source

    @property
    def time(self) -> datetime | None:
        """When it was published."""
        return self.event.time

    @property
    def headers(self) -> Mapping[str, str]:
        return self.event.headers

    @property
    def correlation_id(self) -> str | None:
        return self.event.correlation_id

    def __repr__(self) -> str:
        return f"<Delivery of event {self.id} to {self.group!r} of {self.topic!r}>"


def _check_no_loop() -> None:
    """Blocking the loop here would keep it from writing the outcome."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("the _sync methods block: inside a running event loop await the async ones")
