"""The database of a relay: short transactions, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.errors import HeadraceError, StoreUnavailable
from headrace.outbox.connections import SyncConnection

T = TypeVar("T")


class NotifyConnection(NamedTuple):
    """A connection of psycopg for oneself, and how to close it."""

    connection: Any
    close: Callable[[], None]


class RelayDatabase(Protocol):
    async def run(self, work: Callable[[SyncConnection], T]) -> T:
        """What `work` gives, in one transaction. Raises `StoreUnavailable` for whatever the
        database has against it, which may be over soon."""
        ...

    async def listener(self) -> NotifyConnection | None:
        """A connection on which one can listen; None if this database has no such thing."""
        ...

    async def close(self) -> None: ...


class ThreadedDatabase:
    """A database that blocks its caller: it has a thread of its own."""

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
    """Errors of any driver as one that the relay waits out."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        kind, text = type(error).__name__, str(error).strip()
        raise StoreUnavailable(f"the outbox's database has a problem: {kind}: {text}") from error
