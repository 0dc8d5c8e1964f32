"""Moves on jobs that are due."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.store.contract import Listener, ListenerHandle, Upkeep
from headrace.worker.service import POLL, QueuePoller


class Promoter(QueuePoller):
    """Sleeps until the next due time of any queue, or until it is notified of an earlier one. While
    there is more to promote than one call moves, the calls follow each other without a rest."""

    name = "promoter"
    scope = "promote"

    def __init__(
        self,
        upkeep: Upkeep,
        queues: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(queues, monotonic)
        self._upkeep = upkeep

    async def poll(self, queue: str) -> float:
        promotion = await self._upkeep.promote(queue)
        if promotion.more:
            return 0.0
        return POLL if promotion.next_in is None else promotion.next_in

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._upkeep.on_due(queue, listener)
