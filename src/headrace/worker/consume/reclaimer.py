"""Takes over jobs whose worker is gone, or has dropped them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.errors import StoreError, StoreUnavailable
from headrace.store.contract import Upkeep, reclaim_every
from headrace.worker.logs.leases import report_taken

log = logging.getLogger("headrace.worker")

Redelivered = Callable[[str, int], None]
"""Called with a queue and the number of its jobs that were delivered again."""
TakenOver = Callable[[Sequence[LeasedDelivery]], None]
"""Called with jobs that were taken over after a delivery without an outcome."""


class LastChance:
    """One for all loops of a worker: together they hold at most one job that is on its last chance.
    Of two in one process, the one that kills it would take the other along."""

    def __init__(self, held: Collection[LeasedDelivery], crash_limit: int) -> None:
        self._held = held
        self._crash_limit = crash_limit
        self._claimed = False

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Whether the caller may take such a job from the store; no other may meanwhile. What it
        takes must be held before the block ends."""
        if self._claimed or self.is_among(self._held):
            yield False
            return
        self._claimed = True
        try:
            yield True
        finally:
            self._claimed = False

    def is_among(self, deliveries: Collection[LeasedDelivery]) -> bool:
        return any(delivery.count >= self._crash_limit for delivery in deliveries)


class Reclaimer:
    """Called by the reader before it asks for new jobs. Loops do not wait for one another: one that
    may not take a job on its last chance now looks again soon."""

    def __init__(
        self,
        upkeep: Upkeep,
        queues: Sequence[str],
        lease: float,
        last_chance: LastChance,
        redelivered: Redelivered | None = None,
        taken_over: TakenOver | None = None,
    ) -> None:
        self._upkeep = upkeep
        self._queues = queues
        self._every = reclaim_every(lease)
        self._last_chance = last_chance
        self._redelivered = redelivered
        self._taken_over = taken_over
        self._next_at = 0.0
        self._looks_again = False
        self._trouble = ""

    @property
    def due_in(self) -> float:
        """Seconds until the next look."""
        return max(self._next_at - time.monotonic(), 0.001)

    def look_now(self) -> None:
        """Look at the next two steps: a store whose time has leapt gives nothing at the first."""
        self._next_at, self._looks_again = 0.0, True

    async def step(self, room: int, capacity: Capacity | None = None) -> list[LeasedDelivery]:
        """Up to `room` abandoned jobs, and of each runner what `capacity` says; none if it is not
        time yet. Hold them before anything else is awaited."""
        if time.monotonic() < self._next_at:
            return []
        found: list[LeasedDelivery] = []
        with self._last_chance.claimed() as mine:
            for queue in self._queues:
                if len(found) < room:
                    free = mine and not self._last_chance.is_among(found)
                    found += await self._reclaimed(queue, room - len(found), free, capacity)
        free = mine and not self._last_chance.is_among(found)
        self._next_at = time.monotonic() + self._rest(len(found) >= room, free)
        if self._looks_again:
            self._next_at, self._looks_again = 0.0, False
        for queue, count in report_taken(found).items():
            if self._redelivered is not None:
                self._redelivered(queue, count)
        if self._taken_over is not None:
            self._taken_over([each for each in found if each.count > 1])
        return found

    async def _reclaimed(
        self, queue: str, room: int, last_chance: bool, capacity: Capacity | None
    ) -> list[LeasedDelivery]:
        try:
            return await self._upkeep.reclaim(
                queue, room, last_chance=last_chance, capacity=capacity
            )
        except StoreUnavailable:
            raise
        except StoreError as error:
            # One queue's trouble must not keep the reader from the others.
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning(
                    "abandoned jobs of queue %r cannot be looked for: %s",
                    *(queue, error),
                    extra={"queue": queue, "error": str(error)},
                )
            return []

    def _rest(self, full: bool, free: bool) -> float:
        """Seconds until the next look: short while there is likely more to take over."""
        if full:
            return 0.0
        return self._every if free else self._every / 10
