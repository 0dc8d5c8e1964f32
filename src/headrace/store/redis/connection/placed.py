"""Connections to a server whose address is found anew each time one is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio.connection import Connection

from headrace.store.redis.connection.tls import PlainConnection, TLSConnection

Place = Callable[[], Awaitable[tuple[str, int]]]
"""Finds the host and port."""


def placed(is_encrypted: bool) -> type[PlacedConnection]:
    """The class of connections whose `place` says where they lead."""
    return _PlacedTLSConnection if is_encrypted else _PlacedPlainConnection


class PlacedConnection(Connection):
    """A connection that finds its server each time it is opened."""

    def __init__(self, *, place: Place, **options: Any) -> None:
        super().__init__(**options)
        self._place = place

    async def connect(self) -> None:
        if not self.is_connected:
            self.host, self.port = await self._place()
        await super().connect()  # type: ignore[no-untyped-call]


class _PlacedPlainConnection(PlacedConnection, PlainConnection):
    """One without TLS."""


class _PlacedTLSConnection(PlacedConnection, TLSConnection):
    """One with TLS."""
