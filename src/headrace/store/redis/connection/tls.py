"""Encrypted connections to a server, and plain ones; each notices a port for the other."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

import redis.exceptions as driver
from redis.asyncio.connection import Connection, SSLConnection

# Seconds to wait for an answer, at most: what understands the question answers at once.
_LOOK_SECONDS = 2.0


class NoTLS(OSError):
    """What listens at this address speaks no TLS."""


class WantsTLS(OSError):
    """What listens at this address speaks TLS alone."""


class PlainConnection(Connection):
    """One without TLS."""

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Log in. A server that wants TLS breaks the connection, which would be repeated in
        vain for ever: caused by `WantsTLS` if that is certain."""
        try:
            await super().on_connect_check_health(check_health)
            return
        except driver.AuthenticationError:
            raise
        except driver.ConnectionError:
            if not await _answers_in_tls(self.host, self.port, _patience(self)):
                raise
        raise driver.ConnectionError from WantsTLS(f"{self.host}:{self.port}")


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
            if not await _answers_plainly(self.host, self.port, _patience(self)):
                raise
        except ssl.SSLError as error:
            if error.reason != "WRONG_VERSION_NUMBER":
                raise
        raise NoTLS(f"{self.host}:{self.port}")

    async def disconnect(self, nowait: bool = False, *args: Any, **options: Any) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        await super().disconnect(nowait, *args, **options)


def _patience(connection: Connection) -> float:
    return min(_LOOK_SECONDS, connection.socket_connect_timeout or _LOOK_SECONDS)


async def _answers_in_tls(host: str, port: int, patience: float) -> bool:
    """Whether a server there completes a greeting in TLS, whoever it is: it is told nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(patience):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.transport.abort()
        return True
    return False


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
