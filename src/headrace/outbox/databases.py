"""The database of a relay: short transactions, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.core.address import ENCODE, masked, without_password
from headrace.errors import ConfigError, HeadraceError, StoreUnavailable
from headrace.outbox.links import Connection, comes_from

T = TypeVar("T")
Begin = Callable[[], AbstractContextManager[Connection]]
Connect = Callable[[], Any]


class NotifyConnection(NamedTuple):
    """A connection of psycopg for oneself, and how to close it."""

    connection: Any
    close: Callable[[], None]


class Database(Protocol):
    async def run(self, work: Callable[[Connection], T]) -> T:
        """What `work` gives, in one transaction. Raises `StoreUnavailable` for whatever the
        database has against it, which may be over soon."""
        ...

    async def listener(self) -> NotifyConnection | None:
        """A connection on which one can listen; None if this database has no such thing."""
        ...

    async def close(self) -> None: ...


def database_of(given: object) -> Database:
    """The database that a user names."""
    if comes_from(given, "sqlalchemy"):
        from headrace.outbox import engines

        return engines.database_of(given)
    if isinstance(given, str):
        scheme = given.partition(":")[0]
        if scheme not in ("sqlite", "postgresql", "postgres"):
            return _made_for(given)
        return Threaded(_Reused(_connecting(given)))
    if callable(given):
        return Threaded(_Reused(given))
    raise ConfigError(
        "relay() takes an Engine or AsyncEngine of SQLAlchemy, a URL, or a function that gives a "
        f"new connection, not {type(given).__name__}"
    )


class Threaded:
    """A database that blocks whoever asks it: it has a thread of its own."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headrace-outbox")

    async def run(self, work: Callable[[Connection], T]) -> T:
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


class Source(Protocol):
    """Where a thread gets its transactions."""

    def begin(self) -> AbstractContextManager[Connection]: ...
    def listener(self) -> NotifyConnection | None: ...
    def close(self) -> None: ...


class _Reused:
    """One connection for all transactions, until it fails."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Any = None

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        if self._connection is None:
            self._connection = self._connect()
            # Taking rows is two statements on PostgreSQL.
            if getattr(self._connection, "autocommit", False) is True:
                self._connection.autocommit = False
        try:
            yield self._connection
            self._connection.commit()
        except BaseException:
            self.close()
            raise

    def listener(self) -> NotifyConnection | None:
        if not comes_from(self._connection, "psycopg"):
            return None
        connection = self._connect()
        return NotifyConnection(connection, connection.close)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


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


def _connecting(url: str) -> Connect:
    if url.startswith("sqlite:"):
        import sqlite3

        path = url.removeprefix("sqlite:///")
        if path in (url, "", ":memory:"):
            shown = without_password(url)
            raise ConfigError(f"{shown!r} names no SQLite file: write sqlite:///shop.db")
        return lambda: sqlite3.connect(path, timeout=30)
    psycopg = _needed("psycopg", url)
    return lambda: _connected(psycopg, url)


def _connected(psycopg: Any, url: str) -> Any:
    try:
        return psycopg.connect(url)
    except Exception as error:
        said = masked(f"{type(error).__name__}: {str(error).strip()}", url)
    # Outside of the handler: the driver's error, which may quote a password, is not to hang on.
    raise StoreUnavailable(f"the outbox's database has a problem: {said}")


def _made_for(url: str) -> Database:
    alchemy = _needed("sqlalchemy", url)
    from headrace.outbox import engines

    try:
        engine = alchemy.create_engine(url)
        return Threaded(engines.Sync(engine, owned=True))
    except (alchemy.exc.ArgumentError, ModuleNotFoundError, ValueError, TypeError) as error:
        said = masked(str(error), url)
    shown = without_password(url)
    raise ConfigError(f"{shown!r} is no URL of a database that can be opened: {said}; {ENCODE}")


def _needed(package: str, url: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError:
        scheme = url.partition(":")[0]
        raise ConfigError(f"to read from {scheme}: install {package}") from None
