"""The connections of one event loop: sender, waiter, and the groups that it has created."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from headrace.client.send.sender import Sender
from headrace.client.waiter import Waiter
from headrace.core.sends import Sends
from headrace.core.task.queue_settings import QueueSettings
from headrace.store.contract import Store

# The store may lose its groups (FLUSHALL): a process that only publishes must create them again.
_JOINED_FOR = 10.0


class ClientSession:
    def __init__(
        self,
        store: Store,
        queues: Mapping[str, QueueSettings] | None = None,
        sends: Sends | None = None,
        max_pending_per_key: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        max_reconnect: float | None = None,
    ) -> None:
        self.store = store
        self.monotonic = monotonic
        self.closed = False
        self.entered = 0
        """How many `async with app` of this loop are open."""
        self.sender = Sender(store, queues, sends, max_pending_per_key)
        self.waiter = Waiter(store, max_reconnect)
        self.joining: dict[str, asyncio.Task[None]] = {}
        """Topics whose groups are about to join."""
        self.removed: set[str] = set()
        """Queues of groups that were removed here: publishing does not bring them back."""
        self._joined: dict[str, tuple[int, float]] = {}

    def note_joined(self, topic: str, groups: int) -> None:
        """Record that this number of groups of a topic exists now."""
        self._joined[topic] = groups, self.monotonic() + _JOINED_FOR

    def has_joined(self, topic: str, groups: int) -> bool:
        """Whether this number of groups of a topic was seen in the store within the last
        seconds."""
        known, until = self._joined.get(topic, (-1, 0.0))
        return known == groups and self.monotonic() < until

    async def close(self) -> None:
        self.closed = True
        await self.waiter.close()
        await self.store.close()
