"""Brings jobs from the store to the executor."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Protocol

from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import RELEASED, Outcome
from headrace.core.shares import turns
from headrace.errors import StoreError
from headrace.middleware.nesting import OnRead
from headrace.store.contract import Consumer, reclaim_every
from headrace.worker.consume.places import Places
from headrace.worker.consume.reclaimer import Reclaimer
from headrace.worker.logs.leases import report_lost
from headrace.worker.service import Service

_WAIT = 5.0
_UNBLOCK_EVERY = 0.05
# Fewer are handed over before the store could answer.
_MANY = 32

Ready = Callable[[], Awaitable[None]]
"""Makes sure that there is something to read from."""


class HandBackQueue(Protocol):
    """What the reader needs of the settler, to hand back what cannot run now."""

    def put(self, delivery: LeasedDelivery, outcome: Outcome) -> None: ...

    @property
    def backlog(self) -> int: ...

    @property
    def left(self) -> Collection[LeasedDelivery]: ...


class QueueReader(Service):
    """Asks for no more jobs than the worker can start: first abandoned ones, then new ones. While
    all that comes is for a batch task, it asks for as many more as the batch can take; while jobs
    end faster than they are read, for more than there are slots, which its queues share by
    `weights`, if given. What a read brings after `stop` is handed back, not dropped."""

    name = "reader"
    scope = "read"

    def __init__(
        self,
        consumer: Consumer,
        reclaimer: Reclaimer | None,
        settler: HandBackQueue,
        places: Places,
        held: set[LeasedDelivery],
        start: Callable[[LeasedDelivery], None],
        ready: Ready | None = None,
        on_read: OnRead | None = None,
        *,
        lease: float,
        weights: Mapping[str, int] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._lease = lease
        self._weights = weights
        self._monotonic = monotonic
        self._doubt_until = self._recover_at = float("-inf")
        self._ready = ready
        self._on_read = on_read
        self._consumer = consumer
        self._reclaimer = reclaimer
        self._settler = settler
        self._places = places
        self._slots = places.slots
        self._held = held
        self._start = start
        self._waking: asyncio.Future[None] | None = None

    async def step(self) -> float:
        await self._places.wait()
        if self._is_behind:
            return 0.1
        if self._recover_at <= self._monotonic() < self._doubt_until:
            await self._take_up()
        free = self._places.free()
        if self._reclaimer is not None and free > 0 and not self.stopping:
            self.scope = "reclaim"
            reclaiming = self._reclaimer.step(free, self._places.capacity(free))
            self._hand_over(await self._came(reclaiming, self._asked()))
            self.scope = "read"
        if self._places.room() > 0 and not self.stopping:
            await self._read()
        return 0.0

    def look_now(self) -> None:
        if self._reclaimer is not None:
            self._reclaimer.look_now()
        self._waking = asyncio.ensure_future(self._unblock())

    async def _read(self) -> None:
        """Read; while there is plenty, ask for the next ones before these are handed over, so that
        the store looks for them meanwhile."""
        share = self._share()
        deliveries = await self._came(self._fetch(share), self._asked(), share)
        while len(deliveries) >= max(share // 2, _MANY) and self._may_read_on(len(deliveries)):
            share = self._share(len(deliveries))
            asked = self._asked()
            ahead = asyncio.create_task(self._fetch(share), name="headrace-reader-ahead")
            try:
                # The request leaves now.
                await asyncio.sleep(0)
                self._hand_over(deliveries)
                deliveries = await self._came(ahead, asked, share)
            finally:
                ahead.cancel()
        self._hand_over(deliveries)

    def _may_read_on(self, came: int) -> bool:
        """Whether nothing but a read is due when `came` are handed over, and there is room for
        more. What is counted by thread or process counts only once it is handed over."""
        if self.stopping or not self._places.are_slots or self._places.room() <= came:
            return False
        upkeep = self._reclaimer is not None and self._reclaimer.due_in <= 0
        doubtful = self._monotonic() < self._doubt_until
        return not (upkeep or doubtful or self._is_behind)

    @property
    def _is_behind(self) -> bool:
        """Outcomes cannot be written: more jobs would only be run to be run again."""
        return self._settler.backlog > 2 * self._slots.total + 1000

    async def _fetch(self, limit: int) -> list[LeasedDelivery]:
        """A read, which ends early if more can be started than it asks for."""
        wait = min(_WAIT, self._reclaimer.due_in) if self._reclaimer else _WAIT
        capacity = self._places.capacity(limit)
        if capacity is None or min(capacity.thread, capacity.process) > 0:
            return await self._consumer.fetch(limit, wait, capacity)
        waking = asyncio.create_task(self._end_fetch(), name="headrace-reader-wake")
        try:
            return await self._consumer.fetch(limit, wait, capacity)
        finally:
            waking.cancel()

    async def _end_fetch(self) -> None:
        await self._places.more_than_asked()
        while True:
            with contextlib.suppress(StoreError):
                await self._consumer.wake()
            await asyncio.sleep(_UNBLOCK_EVERY)

    def _asked(self) -> tuple[int, float]:
        """When a read begins: by the time of day, in ns, and by the monotonic clock."""
        return time.time_ns(), self._monotonic()

    async def _came(
        self,
        reading: Awaitable[Sequence[LeasedDelivery]],
        asked: tuple[int, float],
        share: int = 0,
    ) -> Sequence[LeasedDelivery]:
        """What a read brings that is still this worker's."""
        began_ns, began = asked
        deliveries = await reading
        if share:
            self._places.learn(self._monotonic() - began, asked=share, came=len(deliveries))
            at_once = self._slots.free - self._slots.queued
            if self._weights is not None and len(deliveries) > at_once:
                deliveries = _in_turns(deliveries, self._weights)
        if deliveries and self._monotonic() - began > self._lease / 2:
            deliveries = await self._still_held(deliveries)
        if self._on_read is not None and deliveries:
            self._on_read(deliveries, began_ns)
        return deliveries

    def _share(self, came: int = 0) -> int:
        """How many jobs to ask for after `came`: at most half of what the worker can hold, so that
        one half runs while the other is read, plus what a batch can take."""
        slots = self._slots
        half = max(1, (slots.total + slots.ahead) // 2)
        return min(self._places.room() - came, half) + slots.batch_extra

    async def recover(self) -> None:
        self.scope = "read"
        if self._ready is not None:
            await self._ready()
        await self._take_up()
        # Not only when the read that follows has brought something.
        self.outage.answers(self)
        self._doubt_until = self._monotonic() + self._lease

    async def _take_up(self) -> None:
        """Run what a failed read has leased to this worker. Repeated for one lease: the request may
        reach the store after its connection broke."""
        self._recover_at = self._monotonic() + reclaim_every(self._lease)
        known = {*self._held, *self._settler.left} if self._settler.left else self._held
        if found := await self._consumer.recover(known):
            self._hand_over(await self._still_held(found))

    async def _still_held(self, deliveries: Sequence[LeasedDelivery]) -> Sequence[LeasedDelivery]:
        """The late deliveries that are still this worker's, with a new lease. Others may have taken
        over the rest, which must not run here too."""
        while True:
            asked = self._monotonic()
            if lost := set(await self._consumer.renew(deliveries)):
                report_lost(lost)
                deliveries = [each for each in deliveries if each not in lost]
            if self._monotonic() - asked < self._lease / 2:
                return deliveries

    async def interrupt(self, running: asyncio.Task[None], within: float) -> None:
        """Stop, and end a read that waits. The read is cancelled only if the store does not answer
        in time: what the store handed out with it would be stranded."""
        self.stop()
        self._places.poke()
        ends_at = time.monotonic() + within
        while not running.done():
            if time.monotonic() > ends_at:
                running.cancel()
            try:
                async with asyncio.timeout(_UNBLOCK_EVERY):
                    await asyncio.shield(running)
            except TimeoutError:
                await self._unblock()
            except asyncio.CancelledError:
                if not running.cancelled():
                    raise

    async def _unblock(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._consumer.interrupt()
        except Exception:
            # The store is away; the read will fail by itself.
            await asyncio.sleep(_UNBLOCK_EVERY)

    def _hand_over(self, deliveries: Sequence[LeasedDelivery]) -> None:
        if not deliveries:
            return
        now = time.monotonic()
        for delivery in deliveries:
            delivery.leased_at = now
        self._held.update(deliveries)
        if self.stopping:
            for delivery in deliveries:
                delivery.identify()
                self._settler.put(delivery, RELEASED)
            return
        slots, start = self._slots, self._start
        for delivery in deliveries:
            # One by one: a run that waits for a thread needs none.
            slots.free -= 1
            start(delivery)


def _in_turns(
    deliveries: Sequence[LeasedDelivery], weights: Mapping[str, int]
) -> Sequence[LeasedDelivery]:
    """The deliveries in the order in which they get slots. A store gives them queue by queue."""
    when = turns([delivery.queue for delivery in deliveries], weights)
    return [delivery for *_, delivery in sorted(zip(when, count(), deliveries, strict=False))]
