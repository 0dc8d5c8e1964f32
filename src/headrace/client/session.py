"""What one event loop holds of the store."""

from __future__ import annotations

import asyncio

from headrace.client.sender import Sender
from headrace.client.waiter import Waiter
from headrace.store.contract import Store


class Session:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.entered = 0
        """How many `async with app` of this loop are open."""
        self.sender = Sender(store)
        self.waiter = Waiter(store)
        self.joined: dict[str, int] = {}
        """Of each topic that was published to, how many of its groups have joined."""
        self.joining: dict[str, asyncio.Task[None]] = {}
        """Topics whose groups are about to."""

    async def close(self) -> None:
        await self.waiter.close()
        await self.store.close()
