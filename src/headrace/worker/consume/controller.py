"""Has the worker heed what people want: tasks that are paused, jobs that are to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.store.contract import Listener, ListenerHandle, Store, Upkeep
from headrace.store.values import Control
from headrace.worker.queue_poller import POLL, Rounds

_HOLD = 0.05

Heed = Callable[[str, Control], None]


class Controller(Rounds):
    """Tells the executor what the store says of each queue, when it has changed and every few
    seconds. A paused queue needs no telling: `fetch` brings nothing of it."""

    name = "controller"

    def __init__(
        self,
        store: Store,
        upkeep: Upkeep,
        queues: Sequence[str],
        heed: Heed,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(queues, monotonic)
        self._store = store
        self._upkeep = upkeep
        self._heed = heed

    async def look(self, queue: str) -> float:
        self.hold(queue, _HOLD)
        self._heed(queue, await self._store.control(queue))
        return POLL

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._upkeep.on_control(queue, listener)
