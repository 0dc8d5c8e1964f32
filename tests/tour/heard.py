"""What the stories about topics share."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec


class Paid(msgspec.Struct, frozen=True):
    order: str
    cents: int = 0


class Heard:
    """What handlers were given, by name; `until` waits for it."""

    def __init__(self) -> None:
        self.events: dict[str, list[Any]] = {}
        self._came = asyncio.Event()

    def add(self, name: str, event: Any) -> None:
        self.events.setdefault(name, []).append(event)
        self._came.set()

    def __getitem__(self, name: str) -> list[Any]:
        return self.events.get(name, [])

    async def until(self, **counts: int) -> None:
        async with asyncio.timeout(30):
            while any(len(self[name]) < count for name, count in counts.items()):
                self._came.clear()
                await self._came.wait()


def paid(count: int) -> list[Paid]:
    return [Paid(f"o-{number}", number) for number in range(count)]
