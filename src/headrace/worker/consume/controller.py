"""Applies what people ask of running jobs: paused tasks, cancelled jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.store.contract import Listener, ListenerHandle, Store, Upkeep
from headrace.store.values import Control
from headrace.worker.service import POLL, QueuePoller

_HOLD = 0.05

ApplyControl = Callable[[str, Control], None]


class Controller(QueuePoller):
    """Gives the executor the control of each queue, at each change and every few seconds. `fetch`
    brings nothing from a paused queue; what was fetched before and has not begun goes back."""

    name = "controller"

    def __init__(
        self,
        store: Store,
        upkeep: Upkeep,
        queues: Sequence[str],
        apply_control: ApplyControl,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(queues, monotonic)
        self._store = store
        self._upkeep = upkeep
        self._apply_control = apply_control

    async def poll(self, queue: str) -> float:
        self.delay(queue, _HOLD)
        self._apply_control(queue, await self._store.control(queue))
        return POLL

    async def wake_on(self, queue: str, listener: Listener) -> ListenerHandle:
        return await self._upkeep.on_control(queue, listener)
