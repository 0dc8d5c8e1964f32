"""An event in the hands of a subscription's function."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from headrace.client.portal import check_no_loop
from headrace.client.topic.manual_settlement import Decision, ManualSettlement
from headrace.core.job.ids import JobId, to_id
from headrace.core.topic.event import Event
from headrace.errors import ConfigError, Defer, DeliveryUsed, HeadraceError, Reject, RetryLater


class PlaceFinder(Protocol):
    """Finds events in the logs of a topic."""

    async def place_of(self, job_id: JobId, shard: int) -> str | None: ...

    def place_of_sync(self, job_id: JobId, shard: int) -> str | None: ...


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
        deaths: int = 0,
        shard: int = 0,
        ack: str = "manual",
        manual: ManualSettlement | None = None,
        places: PlaceFinder | None = None,
    ) -> None:
        self._manual = manual
        self._places = places
        self._undecided = [True] if manual is None else manual.undecided
        self._ack = ack
        self.event = event
        """The event's metadata, and as `data` the event itself."""
        self.group = group
        """The name of the group."""
        self.attempt = attempt
        """Attempt number of this event in this group, starting at 1."""
        self.fence = fence
        """Grows whenever the event is taken from a worker that may still be at it."""
        self.deaths = deaths
        """How often the event has been dead in this group, and was replayed."""
        self.shard = shard
        """The shard of the topic that holds the event, from 0."""

    async def ack(self) -> None:
        """The event is done."""
        await self._decided(None)

    async def retry(self, delay: float | timedelta | None = None) -> None:
        """Handle it again after `delay`, or as the retry policy says; uses an attempt, and the last
        one makes the event dead.

        Args:
            delay: Seconds or a timedelta; as the retry policy says unless given.
        """
        await self._decided(RetryLater(delay))

    async def reject(self, reason: str = "the subscription rejected the event") -> None:
        """Give it up: it is dead, with this reason, whatever the retry policy says.

        Args:
            reason: Why, for people.
        """
        await self._decided(Reject(reason))

    async def defer(self, delay: float | timedelta) -> None:
        """Handle it again after `delay`, as if it had not come yet: uses no attempt.

        Args:
            delay: Seconds or a timedelta.
        """
        await self._decided(Defer(delay))

    def ack_sync(self) -> None:
        """`ack` for functions that are not async."""
        self._decided_sync(None)

    def retry_sync(self, delay: float | timedelta | None = None) -> None:
        """`retry` for functions that are not async.

        Args:
            delay: Seconds or a timedelta; as the retry policy says unless given.
        """
        self._decided_sync(RetryLater(delay))

    def reject_sync(self, reason: str = "the subscription rejected the event") -> None:
        """`reject` for functions that are not async.

        Args:
            reason: Why, for people.
        """
        self._decided_sync(Reject(reason))

    def defer_sync(self, delay: float | timedelta) -> None:
        """`defer` for functions that are not async.

        Args:
            delay: Seconds or a timedelta.
        """
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
        # Blocking the loop here would keep it from writing the outcome.
        check_no_loop()
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

    # Where it comes from

    @property
    def redeliveries(self) -> int:
        """How often the event was delivered to this group before, since it was last replayed."""
        return self.fence - 1

    @property
    def redelivered(self) -> bool:
        """Whether the event was delivered to this group before."""
        return self.fence > 1

    async def place(self) -> str | None:
        """Its place in the log of its shard, as the store writes it; None if the log no longer
        holds the event. Asks the store."""
        if self._places is None:
            return None
        return await self._places.place_of(to_id(self.id), self.shard)

    def place_sync(self) -> str | None:
        """`place` for functions that are not async."""
        check_no_loop()
        if self._places is None:
            return None
        return self._places.place_of_sync(to_id(self.id), self.shard)

    # What the event says of itself

    @property
    def id(self) -> str:
        """The event's id: the same in every attempt."""
        return self.event.id

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.event.topic

    @property
    def key(self) -> str | None:
        """As published."""
        return self.event.key

    @property
    def type(self) -> str:
        """As published; the name of the class unless said."""
        return self.event.type

    @property
    def source(self) -> str | None:
        """Who published it, if they say."""
        return self.event.source

    @property
    def time(self) -> datetime | None:
        """When it was published."""
        return self.event.time

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened, as its publisher said; else when it was published."""
        return self.event.occurred_at

    @property
    def headers(self) -> Mapping[str, str]:
        """As published."""
        return self.event.headers

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to."""
        return self.event.correlation_id

    def __repr__(self) -> str:
        return f"<Delivery of event {self.id} to {self.group!r} of {self.topic!r}>"
