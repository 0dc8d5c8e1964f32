"""Takes over jobs whose worker is gone, or has dropped them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from headrace.core.job.delivery import LeasedDelivery
from headrace.errors import StoreError, StoreUnavailable
from headrace.store.contract import Upkeep, reclaim_every

log = logging.getLogger("headrace.worker")

Redelivered = Callable[[str, int], None]
"""Called with a queue and the number of its jobs that were delivered again."""


class LastChance:
    """One for all loops of a worker: of what they hold together, at most one job is on its last
    chance. With two of them in one process, the one that kills it takes the other along."""

    def __init__(self, held: Collection[LeasedDelivery], crash_limit: int) -> None:
        self._held = held
        self._crash_limit = crash_limit
        self._claimed = False

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Whether whoever asks the store may be given such a job: nobody else may until that is
        over. What it was given must be held by then."""
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
    """The reader lets it look, now and then, before it asks for new jobs. No loop of a worker waits
    for another that looks; one that must do without a last chance meanwhile looks again soon."""

    def __init__(
        self,
        upkeep: Upkeep,
        queues: Sequence[str],
        lease: float,
        last_chance: LastChance,
        redelivered: Redelivered | None = None,
    ) -> None:
        self._upkeep = upkeep
        self._queues = queues
        self._every = reclaim_every(lease)
        self._last_chance = last_chance
        self._redelivered = redelivered
        self._next_at = 0.0
        self._trouble = ""

    @property
    def due_in(self) -> float:
        """Seconds until it wants to look again."""
        return max(self._next_at - time.monotonic(), 0.001)

    async def step(self, room: int) -> list[LeasedDelivery]:
        """Up to `room` jobs, if it is time to look; to be held before anything else is awaited."""
        if time.monotonic() < self._next_at:
            return []
        found: list[LeasedDelivery] = []
        with self._last_chance.claimed() as mine:
            for queue in self._queues:
                if len(found) < room:
                    free = mine and not self._last_chance.is_among(found)
                    found += await self._reclaimed(queue, room - len(found), free)
        free = mine and not self._last_chance.is_among(found)
        self._next_at = time.monotonic() + self._rest(len(found) >= room, free)
        self._report(Counter(delivery.queue for delivery in found if delivery.count > 1))
        return found

    def _report(self, again: Counter[str]) -> None:
        for queue, count in again.items():
            log.warning(
                "took over %d job(s) of queue %r whose workers died, lost their lease, or dropped "
                "them without settling",
                *(count, queue),
                extra={"queue": queue},
            )
            if self._redelivered is not None:
                self._redelivered(queue, count)

    async def _reclaimed(self, queue: str, room: int, last_chance: bool) -> list[LeasedDelivery]:
        try:
            return await self._upkeep.reclaim(queue, room, last_chance=last_chance)
        except StoreUnavailable:
            raise
        except StoreError as error:
            # One queue's trouble must not keep the reader from the others.
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("abandoned jobs of queue %r cannot be looked for: %s", queue, error)
            return []

    def _rest(self, full: bool, free: bool) -> float:
        """Seconds until the next look: short while there is likely more to take over."""
        if full:
            return 0.0
        return self._every if free else self._every / 10
