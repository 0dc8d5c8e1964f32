"""One statement through any connection of a user: SQLAlchemy's or a driver's, sync or async.

SQLAlchemy and drivers are recognised by the modules of their classes, so that none is imported that
the user did not bring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol

from headrace.errors import ConfigError
from headrace.outbox.sql.dialects import POSTGRESQL, SQLITE, Dialect, Make, StatementResult

_DRIVERS = {
    "sqlite3": SQLITE,
    "psycopg": POSTGRESQL,
    "psycopg2": POSTGRESQL,
}
_NAMED = re.compile(r":(\w+)")


class SyncConnection(Protocol):
    """A Session or Connection of SQLAlchemy, or a connection of sqlite3, psycopg or psycopg2, with
    the transaction that is open on it."""

    def commit(self) -> None: ...


class AsyncConnection(Protocol):
    """An AsyncSession or AsyncConnection of SQLAlchemy, or an async connection of psycopg."""

    def commit(self) -> Awaitable[None]: ...


def execute(connection: SyncConnection, make: Make) -> StatementResult:
    """Carry out a statement in the transaction of the connection."""
    if _is_async(connection):
        raise ConfigError(
            f"{_name_of(connection)} is async: use the methods that end in _async, "
            "or its run_sync(…)"
        )
    if comes_from(connection, "sqlalchemy"):
        from headrace.outbox.sql import sqlalchemy_connection

        return sqlalchemy_connection.execute(connection, make)
    return _through_driver(connection, make)


async def execute_async(connection: AsyncConnection, make: Make) -> StatementResult:
    """`execute` for an async connection."""
    if not _is_async(connection):
        raise ConfigError(f"{_name_of(connection)} is not async: use the method without _async")
    if comes_from(connection, "sqlalchemy"):
        from headrace.outbox.sql import sqlalchemy_connection

        return await sqlalchemy_connection.execute_async(connection, make)
    driver, dialect = _driver(connection)
    cursor = await driver.execute(*_for_driver(dialect, make))
    try:
        rows = await cursor.fetchall() if cursor.description else []
        return _answer(rows, cursor.rowcount)
    finally:
        await cursor.close()


def comes_from(thing: object, package: str) -> bool:
    """Whether the class of the object, or a base class of it, is of this package."""
    return any(kind.__module__.split(".")[0] == package for kind in type(thing).__mro__)


def _through_driver(connection: SyncConnection, make: Make) -> StatementResult:
    driver, dialect = _driver(connection)
    cursor = driver.cursor()
    try:
        cursor.execute(*_for_driver(dialect, make))
        return _answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)
    finally:
        cursor.close()


def _driver(connection: object) -> tuple[Any, Dialect]:
    for package, dialect in _DRIVERS.items():
        if comes_from(connection, package):
            return connection, dialect
    raise ConfigError(
        f"{_name_of(connection)} is no connection that an outbox or inbox can use: give a Session "
        "or Connection of SQLAlchemy, or a connection of sqlite3, psycopg or psycopg2"
    )


def _for_driver(dialect: Dialect, make: Make) -> tuple[str, Mapping[str, Any]]:
    sql, values = make(dialect)
    return (_NAMED.sub(r"%(\1)s", sql) if dialect is POSTGRESQL else sql), values


def _answer(rows: Iterable[Any], count: int) -> StatementResult:
    # A connection may be set to give rows as dicts.
    found = [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]
    return StatementResult(found, max(count, 0))


def _is_async(connection: object) -> bool:
    commit = getattr(type(connection), "commit", None)
    return inspect.iscoroutinefunction(commit)


def _name_of(connection: object) -> str:
    kind = type(connection)
    return f"this {kind.__module__}.{kind.__qualname__}"
