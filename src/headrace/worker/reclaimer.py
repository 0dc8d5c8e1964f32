"""Takes over jobs whose worker is gone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Sequence

from headrace.core.delivery import Delivery
from headrace.errors import StoreError, StoreUnavailable
from headrace.store.contract import Consumer, reclaim_every

log = logging.getLogger("headrace.worker")


class Reclaimer:
    """The reader lets it look, now and then, before it asks for new jobs. Those of one worker look
    in turn: two jobs on their last chance in one process, and the one that kills it takes the other
    along."""

    def __init__(
        self,
        consumer: Consumer,
        queues: Sequence[str],
        held: Collection[Delivery],
        lease: float,
        crash_limit: int,
        turn: asyncio.Lock | None = None,
    ) -> None:
        self._consumer = consumer
        self._queues = queues
        self._held = held
        self._every = reclaim_every(lease)
        self._crash_limit = crash_limit
        self._turn = turn or asyncio.Lock()
        self._next_at = 0.0
        self._trouble = ""

    @property
    def due_in(self) -> float:
        """Seconds until it wants to look again."""
        return max(self._next_at - time.monotonic(), 0.001)

    async def step(self, room: int) -> list[Delivery]:
        """Up to `room` jobs, if it is time to look."""
        if time.monotonic() < self._next_at:
            return []
        found: list[Delivery] = []
        async with self._turn:
            for queue in self._queues:
                if len(found) < room:
                    found += await self._reclaimed(queue, room - len(found), found)
        self._next_at = time.monotonic() + self._rest(found, room)
        again = sum(delivery.count > 1 for delivery in found)
        if again:
            log.warning("took over %d job(s) whose worker is gone", again)
        return found

    async def _reclaimed(self, queue: str, room: int, found: Sequence[Delivery]) -> list[Delivery]:
        last_chance = not self._holds_last_chance(found)
        try:
            return await self._consumer.reclaim(queue, room, last_chance=last_chance)
        except StoreUnavailable:
            raise
        except StoreError as error:
            # One queue's trouble must not keep the reader from the others.
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("abandoned jobs of queue %r cannot be looked for: %s", queue, error)
            return []

    def _rest(self, found: Sequence[Delivery], room: int) -> float:
        """Seconds until the next look: short while there is likely more to take over."""
        if len(found) >= room:
            return 0.0
        return self._every / 10 if self._holds_last_chance(found) else self._every

    def _holds_last_chance(self, found: Sequence[Delivery]) -> bool:
        return any(
            delivery.count >= self._crash_limit for held in (self._held, found) for delivery in held
        )
