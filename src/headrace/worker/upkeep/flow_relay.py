"""Carries the news of ended jobs to the queues of those that wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.errors import StoreError
from headrace.store.contract import Consumer, Listener, ListenerHandle, Store
from headrace.store.values import Letter
from headrace.worker.queue_poller import POLL, Rounds

_BATCH = 500
_HOLD = 0.05


class Courier(Rounds):
    """Empties the outbox of each queue. A letter is forgotten after it was delivered, so one may be
    delivered twice, which changes nothing, and none is lost."""

    name = "courier"

    def __init__(
        self,
        store: Store,
        consumer: Consumer,
        queues: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(queues, monotonic)
        self._store = store
        self._consumer = consumer
        self._stuck = dict.fromkeys(queues, 0)

    async def look(self, queue: str) -> float:
        # Letters that cannot be delivered stay the oldest: ask for as many beyond them.
        asked = _BATCH + self._stuck[queue]
        letters = await self._consumer.outbox(queue, asked)
        if not letters:
            # Most calls are for the promoter. Where letters are, the next follow at once.
            self.hold(queue, _HOLD)
        delivered, trouble = await self._deliver(letters)
        if delivered:
            await self._consumer.posted(queue, delivered)
        self._stuck[queue] = len(letters) - len(delivered)
        if trouble is not None:
            raise trouble
        return 0.0 if len(letters) >= asked else POLL

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._consumer.on_due(queue, listener)

    async def _deliver(self, letters: Sequence[Letter]) -> tuple[list[Letter], StoreError | None]:
        """Those that arrived, and why others did not: a queue that cannot be reached keeps its
        letters waiting, and only its own."""
        delivered: list[Letter] = []
        trouble: StoreError | None = None
        for queue, batch in _by_queue(letters).items():
            try:
                await self._store.arrive(queue, [letter.arrival for letter in batch])
            except StoreError as error:
                trouble = error
            else:
                delivered += batch
        return delivered, trouble


def _by_queue(letters: Sequence[Letter]) -> dict[str, list[Letter]]:
    batches: dict[str, list[Letter]] = {}
    for letter in letters:
        batches.setdefault(letter.queue, []).append(letter)
    return batches
