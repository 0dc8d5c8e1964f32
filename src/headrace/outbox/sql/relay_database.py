"""The database of a relay: transactions beside the event loop, and notifications of commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.errors import HeadraceError, StoreUnavailable
from headrace.outbox.sql.user_connection import SyncConnection

T = TypeVar("T")


class NotifyConnection(NamedTuple):
    """A connection of psycopg that nobody else uses, and how to close it."""

    connection: Any
    close: Callable[[], None]


class RelayDatabase(Protocol):
    async def run(self, work: Callable[[SyncConnection], T]) -> T:
        """The result of `work`, in one transaction. Any error of the database is raised as
        `StoreUnavailable`: it may pass."""
        ...

    async def listener(self) -> NotifyConnection | None:
        """A connection for notifications; None if this database has none."""
        ...

    async def close(self) -> None: ...


class ThreadedDatabase:
    """A database whose driver blocks: it is used in a thread of its own."""

    def __init__(self, source: TransactionSource) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-outbox")

    async def run(self, work: Callable[[SyncConnection], T]) -> T:
        def transact() -> T:
            with self._source.begin() as connection:
                return work(connection)

        with translated():
            return await self._in_thread(transact)

    async def listener(self) -> NotifyConnection | None:
        with translated():
            return await self._in_thread(self._source.listener)

    async def close(self) -> None:
        await self._in_thread(self._source.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class TransactionSource(Protocol):
    """Where a thread gets its transactions."""

    def begin(self) -> AbstractContextManager[SyncConnection]: ...
    def listener(self) -> NotifyConnection | None: ...
    def close(self) -> None: ...


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of any driver as `StoreUnavailable`, which the relay waits out."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        kind, text = type(error).__name__, str(error).strip()
        raise StoreUnavailable(f"the outbox's database has a problem: {kind}: {text}") from error


log = logging.getLogger("headrace.outbox")


class CommitListener:
    """Wakes the relay when a commit in PostgreSQL has written to the outbox, through psycopg. A
    connection that breaks is closed; the relay then polls."""

    def __init__(self, listener: NotifyConnection, wake: Callable[[], object]) -> None:
        self._listener = listener
        self._pgconn = listener.connection.pgconn
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._socket: int = self._pgconn.socket
        self._loop.add_reader(self._socket, self._on_notify)
        self.closed = False

    @classmethod
    async def on(
        cls, database: RelayDatabase, channel: str, wake: Callable[[], object]
    ) -> CommitListener | None:
        """A listener; None if the driver or the database cannot notify."""
        listener = await database.listener()
        if listener is None:
            return None
        try:
            await asyncio.to_thread(_listen, listener.connection, channel)
        except Exception as error:
            log.warning(
                "the outbox relay cannot listen, and polls instead: %s",
                error,
                extra={"error": str(error)},
            )
            listener.close()
            return None
        return cls(listener, wake)

    def _on_notify(self) -> None:
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
