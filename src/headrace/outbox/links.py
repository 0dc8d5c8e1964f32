"""One statement through whatever connection a user has: SQLAlchemy's or a driver's, sync or async.

SQLAlchemy and drivers are told by the modules of their classes, so that none is imported that the
user did not bring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from headrace.errors import ConfigError
from headrace.outbox.dialects import POSTGRESQL, SQLITE, Dialect, Make

_DRIVERS = {
    "sqlite3": SQLITE,
    "psycopg": POSTGRESQL,
    "psycopg2": POSTGRESQL,
}
_NAMED = re.compile(r":(\w+)")


class Connection(Protocol):
    """A Session or Connection of SQLAlchemy, or a connection of sqlite3, psycopg or psycopg2, with
    the transaction that is open on it."""

    def commit(self) -> None: ...


class AsyncConnection(Protocol):
    """An AsyncSession or AsyncConnection of SQLAlchemy, or an async connection of psycopg."""

    def commit(self) -> Awaitable[None]: ...


class Answer(NamedTuple):
    rows: list[tuple[Any, ...]]
    changed: int
    """How many rows were changed, where the statement returns none."""


def execute(connection: Connection, make: Make) -> Answer:
    """Carry out a statement in the transaction of the connection."""
    if _is_async(connection):
        raise ConfigError(
            f"{_called(connection)} is async: use the methods that end in _async, "
            "or its run_sync(…)"
        )
    if comes_from(connection, "sqlalchemy"):
        from headrace.outbox import alchemy

        return alchemy.execute(connection, make)
    return _through_driver(connection, make)


async def execute_async(connection: AsyncConnection, make: Make) -> Answer:
    """`execute` for an async connection."""
    if not _is_async(connection):
        raise ConfigError(f"{_called(connection)} is not async: use the method without _async")
    if comes_from(connection, "sqlalchemy"):
        from headrace.outbox import alchemy

        return await alchemy.execute_async(connection, make)
    driver, dialect = _driver(connection)
    cursor = await driver.execute(*_in_its_words(dialect, make))
    try:
        rows = await cursor.fetchall() if cursor.description else []
        return _answer(rows, cursor.rowcount)
    finally:
        await cursor.close()


def comes_from(thing: object, package: str) -> bool:
    """Whether the class of the thing, or one that it derives from, is of this package."""
    return any(kind.__module__.split(".")[0] == package for kind in type(thing).__mro__)


def _through_driver(connection: Connection, make: Make) -> Answer:
    driver, dialect = _driver(connection)
    cursor = driver.cursor()
    try:
        cursor.execute(*_in_its_words(dialect, make))
        return _answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)
    finally:
        cursor.close()


def _driver(connection: object) -> tuple[Any, Dialect]:
    for package, dialect in _DRIVERS.items():
        if comes_from(connection, package):
            return connection, dialect
    raise ConfigError(
        f"{_called(connection)} is no connection that an outbox or inbox can use: give a Session "
        "or Connection of SQLAlchemy, or a connection of sqlite3, psycopg or psycopg2"
    )


def _in_its_words(dialect: Dialect, make: Make) -> tuple[str, Mapping[str, Any]]:
    sql, values = make(dialect)
    return (_NAMED.sub(r"%(\1)s", sql) if dialect is POSTGRESQL else sql), values


def _answer(rows: Iterable[Any], count: int) -> Answer:
    # A connection may have been told to give rows as dicts.
    found = [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]
    return Answer(found, max(count, 0))


def _is_async(connection: object) -> bool:
    commit = getattr(type(connection), "commit", None)
    return inspect.iscoroutinefunction(commit)


def _called(connection: object) -> str:
    kind = type(connection)
    return f"this {kind.__module__}.{kind.__qualname__}"
