"""Hears of commits that wrote to an outbox in PostgreSQL, through psycopg."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.outbox.databases import NotifyConnection, RelayDatabase

log = logging.getLogger("headrace.outbox")


class CommitListener:
    """A connection that listens. One that breaks is closed; the relay then looks by itself."""

    def __init__(self, listener: NotifyConnection, wake: Callable[[], object]) -> None:
        self._listener = listener
        self._pgconn = listener.connection.pgconn
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._socket: int = self._pgconn.socket
        self._loop.add_reader(self._socket, self._heard)
        self.closed = False

    @classmethod
    async def on(
        cls, database: RelayDatabase, channel: str, wake: Callable[[], object]
    ) -> CommitListener | None:
        """A listener, or None if the driver or the database cannot notify."""
        listener = await database.listener()
        if listener is None:
            return None
        try:
            await asyncio.to_thread(_listen, listener.connection, channel)
        except Exception as error:
            log.warning("the outbox relay cannot listen, and looks by itself: %s", error)
            listener.close()
            return None
        return cls(listener, wake)

    def _heard(self) -> None:
        try:
            self._pgconn.consume_input()
            while self._pgconn.notifies() is not None:
                pass
        except Exception:
            self.close()
        self._wake()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket)
            with suppress(Exception):
                self._listener.close()


def _listen(connection: Any, channel: str) -> None:
    connection.rollback()
    connection.autocommit = True
    connection.execute(f'LISTEN "{channel}"')
