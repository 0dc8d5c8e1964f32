"""Makes scheduled jobs ready when they are due."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from headrace.core.ids import JobKey
from headrace.store.contract import Consumer, Subscription
from headrace.worker.service import Service

# Signals tell of earlier due times; this is for when one is lost.
_POLL = 5.0


class Promoter(Service):
    """Sleeps until the next due time of any queue, or until a signal tells of an earlier one."""

    name = "promoter"

    def __init__(
        self,
        consumer: Consumer,
        queues: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._consumer = consumer
        self._monotonic = monotonic
        self._next_at = dict.fromkeys(queues, 0.0)
        self._subscriptions: list[Subscription] = []

    async def listen(self) -> None:
        for queue in self._next_at:
            hear = partial(self._hear, queue)
            self._subscriptions.append(await self._consumer.hear_due(queue, hear))

    async def close(self) -> None:
        for subscription in self._subscriptions:
            await subscription.close()

    async def step(self) -> float:
        for queue, next_at in self._next_at.items():
            if next_at <= self._monotonic():
                await self._promote(queue)
        return max(min(self._next_at.values()) - self._monotonic(), 0.0)

    async def _promote(self, queue: str) -> None:
        # Before the call: a signal that comes meanwhile must not be overwritten.
        self._next_at[queue] = self._monotonic() + _POLL
        try:
            promotion = await self._consumer.promote(queue)
        except BaseException:
            self._next_at[queue] = 0.0
            raise
        if promotion.more:
            self._next_at[queue] = 0.0
        elif promotion.next_in is not None:
            soon = self._monotonic() + promotion.next_in
            self._next_at[queue] = min(self._next_at[queue], soon)

    def _hear(self, queue: str, _: Sequence[JobKey] | None) -> None:
        self._next_at[queue] = 0.0
        self.wake()
