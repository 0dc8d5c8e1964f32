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
"""What was said of a delivery, as a task would raise it; None if it was acknowledged."""


class Dropped(Exception):
    """Nobody will settle the delivery any more: it was let go of without a word."""


class Fate:
    """The worker's end of a delivery that is settled by hand. The worker awaits `decided`, which
    raises `Dropped` if the delivery is gone without use, has the outcome written, and calls
    `written`. It must not keep the delivery itself alive, nor a context that holds it.

    May be decided in any thread; awaited in the loop in which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._decision: asyncio.Future[Decision] = self._loop.create_future()
        self._answer: Future[None] = Future()
        # Taking the one item out of a list is one step in any thread, so that of two who decide at
        # the same time only one does.
        self.right: list[bool] = [True]
        self.reason: HeadraceError | None = None
        self.trouble: BaseException | None = None
        """Why what was said is not written."""

    def close(self, reason: HeadraceError | None = None) -> None:
        """Let nobody decide any more: the run ended in another way. Whoever tries, or has tried at
        this moment, is told the first `reason` that was given, or that the delivery is settled
        already. In the loop only."""
        self.right.clear()
        self._set(None, Dropped())
        if reason is not None:
            self.reason = self.reason or reason
            self.written(self.reason)

    async def decided(self) -> Decision:
        """What was said of the delivery. May be awaited again after it was cancelled."""
        return await asyncio.shield(self._decision)

    def written(self, error: BaseException | None = None) -> None:
        """The store has the outcome or, with `error`, does not: the caller that decided gets it."""
        if self._answer.done():
            return
        self.trouble = error
        if error is None:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(error)

    def decide(self, decision: Decision) -> Future[None]:
        """What is done when the outcome is written."""
        self._loop.call_soon_threadsafe(self._set, decision, None)
        return self._answer

    def drop(self) -> None:
        """Nobody can decide any more."""
        # The loop may have ended before the garbage was collected.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set, None, Dropped())

    def _set(self, decision: Decision, dropped: Dropped | None) -> None:
        if self._decision.done():
            return
        if dropped is None:
            self._decision.set_result(decision)
        else:
            self._decision.set_exception(dropped)
            # A caller that does not ask does not want to know.
            self._decision.exception()


class Delivery:
    """The event at hand. A parameter annotated `Delivery` is filled with it.

    With `ack="manual"` the event stays with this worker until one of `ack`, `retry`, `reject` or
    `defer` ends its handling, in the function or later; each returns when the store has
    written it, and only one can be used, once. `ack_sync` and its kind are for code in a thread. A
    delivery that is let go of without a word is handed to another worker when its lease ends.
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
        fate: Fate | None = None,
    ) -> None:
        self._fate = fate
        self._right = [True] if fate is None else fate.right
        self._ack = ack
        self.event = event
        """The event's metadata, and as `data` the event itself."""
        self.group = group
        self.attempt = attempt
        """Attempt number of this event in this group, starting at 1."""
        self.fence = fence
        """Grows whenever the event is taken from a worker that may still be at it."""
        self.redelivered = redelivered
        """Whether the event was in the hands of the group before."""

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
        return not self._right

    async def _decided(self, decision: Decision) -> None:
        fate = self._taken()
        if fate is not None:
            # Shielded: that the caller waits no longer does not unsay what was said.
            await asyncio.shield(asyncio.wrap_future(fate.decide(decision)))

    def _decided_sync(self, decision: Decision) -> None:
        _check_no_loop()
        fate = self._taken()
        if fate is not None:
            fate.decide(decision).result()

    def _taken(self) -> Fate | None:
        if self._ack != "manual":
            raise ConfigError(
                f"group {self.group!r} of topic {self.topic!r} acknowledges by itself: declare it "
                "with ack='manual', or raise RetryLater, Reject or Defer"
            )
        try:
            self._right.pop()
        except IndexError:
            raise self._why_closed() from None
        return self._fate

    def _why_closed(self) -> HeadraceError:
        if self._fate is not None and self._fate.reason is not None:
            return self._fate.reason
        return DeliveryUsed(
            f"the delivery of event {self.id} to group {self.group!r} was settled already"
        )

    def __del__(self) -> None:
        if self._fate is not None and self._right and self._ack == "manual":
            self._fate.drop()

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
    """Waiting here would keep the loop from writing what is waited for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("the _sync methods block: inside a running event loop await the async ones")
