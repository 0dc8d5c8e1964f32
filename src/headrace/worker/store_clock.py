"""The store's time, by our clock."""

from __future__ import annotations

from headrace.core.clock import Clock
from headrace.store.contract import Store


class StoreClock:
    """What the store's clock shows, without asking it each time: a worker with a fast clock must
    not let jobs expire before their time. Compared anew now and then, because clocks are set."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ahead_ms = 0

    async def compare(self) -> None:
        self._ahead_ms = await self._store.time_ms() - self._clock.now_ms()

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms
