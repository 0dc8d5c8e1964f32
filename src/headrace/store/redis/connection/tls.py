"""Encrypted connections to a server."""

from __future__ import annotations

from typing import Any

from redis.asyncio.connection import SSLConnection


class TLSConnection(SSLConnection):
    """One that is closed at once. By itself it would first wait for the server to say goodbye too,
    and stay open for good if the event loop ends before that."""

    async def disconnect(self, nowait: bool = False, *args: Any, **options: Any) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **options)
