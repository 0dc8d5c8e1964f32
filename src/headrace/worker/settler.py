"""Tells the store what became of deliveries. The only place that does."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.core.delivery import Delivery
from headrace.core.outcome import Outcome
from headrace.errors import StoreUnavailable
from headrace.store.contract import Consumer, Settlement
from headrace.worker.service import Service

log = logging.getLogger("headrace.worker")

_IDLE = 3600.0


class Settler(Service):
    """Writes at once when idle; outcomes that come while a write is under way go together in the
    next. What could not be written is kept and written again."""

    name = "settler"

    def __init__(self, consumer: Consumer, held: set[Delivery]) -> None:
        super().__init__()
        self._consumer = consumer
        self._held = held
        self._pending: list[Settlement] = []
        self._batches: list[tuple[str, list[Settlement], bool]] = []
        self.lost_leases = 0

    def put(self, delivery: Delivery, outcome: Outcome) -> None:
        if not self._pending:
            self.wake()
        self._pending.append(Settlement(delivery, outcome))

    @property
    def backlog(self) -> int:
        return len(self._pending) + sum(len(batch) for _, batch, _ in self._batches)

    async def step(self) -> float:
        if self._pending:
            self._batches += _by_queue(self._pending)
            self._pending = []
        while self._batches:
            queue, batch, repeat = self._batches[0]
            try:
                lost = await self._consumer.settle(queue, batch, repeat=repeat)
            except StoreUnavailable as error:
                self._batches[0] = (queue, batch, repeat or error.sent)
                raise
            self._batches.pop(0)
            self._held.difference_update([item.delivery for item in batch])
            if lost:
                self._report(lost)
        return 0.0 if self._pending else _IDLE

    def _report(self, lost: list[Delivery]) -> None:
        self.lost_leases += len(lost)
        for delivery in lost:
            log.warning(
                "lease lost: another worker has job %s of queue %r; this outcome is dropped",
                delivery.key_text,
                delivery.queue,
            )


def _by_queue(settlements: Sequence[Settlement]) -> list[tuple[str, list[Settlement], bool]]:
    batches: dict[str, list[Settlement]] = {}
    for item in settlements:
        batches.setdefault(item.delivery.queue, []).append(item)
    return [(queue, batch, False) for queue, batch in batches.items()]
