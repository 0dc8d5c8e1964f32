"""Encrypted connections to a server."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import SSLConnection

# Seconds to wait for the answer to one line, at most. A server that understands it answers at once.
_PLAIN_ANSWER = 2.0


class NoTLS(OSError):
    """What listens there speaks no TLS."""


class TLSConnection(SSLConnection):
    """One that is closed at once. By itself it would first wait for the server to say goodbye too,
    and stay open for good if the event loop ends before that."""

    async def _connect(self) -> None:
        """Connect. A plain Redis says nothing to a greeting in TLS, for which it would be waited in
        vain for ever: `NoTLS` if that is certain."""
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
            return
        except TimeoutError:
            patience = min(_PLAIN_ANSWER, self.socket_connect_timeout or _PLAIN_ANSWER)
            if not await _answers_plainly(self.host, self.port, patience):
                raise
        except ssl.SSLError as error:
            if error.reason != "WRONG_VERSION_NUMBER":
                raise
        raise NoTLS

    async def disconnect(self, nowait: bool = False, *args: Any, **options: Any) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **options)


async def _answers_plainly(host: str, port: int, patience: float) -> bool:
    """Whether a Redis answers there without TLS. It is told nothing but PING."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"PING\r\n")
                # `+PONG`, or `-` and why not; a server that wants TLS answers in TLS or not at all.
                return await reader.read(1) in (b"+", b"-")
            finally:
                writer.transport.abort()
    return False
