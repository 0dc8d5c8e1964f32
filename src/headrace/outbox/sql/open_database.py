"""Opens the database that a user names: by an engine, a URL, or a function that connects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from headrace.core.address import ENCODE, masked, without_password
from headrace.errors import ConfigError, StoreUnavailable
from headrace.outbox.sql.relay_database import NotifyConnection, RelayDatabase, ThreadedDatabase
from headrace.outbox.sql.user_connection import SyncConnection, comes_from

OpenConnection = Callable[[], Any]


def open_database(given: object) -> RelayDatabase:
    """The database for a relay, from what the user gave."""
    if comes_from(given, "sqlalchemy"):
        from headrace.outbox.sql import sqlalchemy_engine

        return sqlalchemy_engine.open_database(given)
    if isinstance(given, str):
        scheme = given.partition(":")[0]
        if scheme not in ("sqlite", "postgresql", "postgres"):
            return _make_database(given)
        return ThreadedDatabase(_ReusedConnection(_connecting(given)))
    if callable(given):
        return ThreadedDatabase(_ReusedConnection(given))
    raise ConfigError(
        "relay() takes an Engine or AsyncEngine of SQLAlchemy, a URL, or a function that gives a "
        f"new connection, not {type(given).__name__}"
    )


class _ReusedConnection:
    """One connection for all transactions, until it fails."""

    def __init__(self, connect: OpenConnection) -> None:
        self._connect = connect
        self._connection: Any = None

    @contextmanager
    def begin(self) -> Iterator[SyncConnection]:
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


def _connecting(url: str) -> OpenConnection:
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
    # Outside of the handler: the driver's error may quote a password, and must not be chained.
    raise StoreUnavailable(f"the outbox's database has a problem: {said}")


def _make_database(url: str) -> RelayDatabase:
    sqlalchemy = _needed("sqlalchemy", url)
    from headrace.outbox.sql import sqlalchemy_engine

    try:
        engine = sqlalchemy.create_engine(url)
        return ThreadedDatabase(sqlalchemy_engine.EngineTransactions(engine, owned=True))
    except (sqlalchemy.exc.ArgumentError, ModuleNotFoundError, ValueError, TypeError) as error:
        said = masked(str(error), url)
    shown = without_password(url)
    raise ConfigError(f"{shown!r} is no URL of a database that can be opened: {said}; {ENCODE}")


def _needed(package: str, url: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError:
        scheme = url.partition(":")[0]
        raise ConfigError(f"to read from {scheme}: install {package}") from None
