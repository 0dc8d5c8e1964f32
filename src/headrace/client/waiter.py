"""Waits for jobs to end: woken by the store's signals, looking for itself now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.core.ids import JobKey
from headrace.errors import StoreUnavailable
from headrace.store.contract import Sighting, Store, Subscription

_POLL_FIRST = 0.25
_POLL_MOST = 5.0
# After the last wait we listen on for a while: the next one is often not far.
_LINGER = 5.0


class Waiter:
    """One event loop's waiting for results."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[str, _QueueWaiter] = {}

    async def wait(self, queue: str, key: JobKey, timeout: float | None) -> Sighting | None:
        """The job once it has ended, None if the store does not know it; `TimeoutError` if it takes
        longer."""
        waiter = self._queues.get(queue)
        if waiter is None:
            waiter = self._queues[queue] = _QueueWaiter(self._store, queue)
        async with asyncio.timeout(timeout):
            return await waiter.wait(key)

    async def close(self) -> None:
        for waiter in self._queues.values():
            await waiter.close()
        self._queues.clear()


class _QueueWaiter:
    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        self._waiting: dict[JobKey, list[asyncio.Event]] = {}
        self._subscription: Subscription | None = None
        self._subscribing = asyncio.Lock()
        self._lingering: asyncio.TimerHandle | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def wait(self, key: JobKey) -> Sighting | None:
        event = asyncio.Event()
        self._waiting.setdefault(key, []).append(event)
        try:
            await self._listen()
            return await self._until_final(key, event)
        finally:
            events = self._waiting[key]
            events.remove(event)
            if not events:
                del self._waiting[key]
            if not self._waiting:
                self._listen_no_longer_than(_LINGER)

    async def close(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    async def _until_final(self, key: JobKey, event: asyncio.Event) -> Sighting | None:
        pause = _POLL_FIRST
        while True:
            event.clear()
            try:
                (sighting,) = await self._store.look(self._queue, [key], bodies=False)
            except StoreUnavailable:
                await asyncio.sleep(pause)
                continue
            if sighting is None or sighting.state.final:
                return sighting
            try:
                async with asyncio.timeout(pause):
                    await event.wait()
            except TimeoutError:
                pause = min(pause * 2, _POLL_MOST)

    async def _listen(self) -> None:
        async with self._subscribing:
            if self._subscription is None:
                self._subscription = await self._store.hear_finished(self._queue, self._hear)

    def _listen_no_longer_than(self, seconds: float) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        self._lingering = asyncio.get_running_loop().call_later(seconds, self._stop_if_idle)

    def _stop_if_idle(self) -> None:
        if not self._waiting:
            self._stopping = asyncio.get_running_loop().create_task(self.close())

    def _hear(self, keys: Sequence[JobKey] | None) -> None:
        for key in self._waiting if keys is None else keys:
            for event in self._waiting.get(key, ()):
                event.set()
