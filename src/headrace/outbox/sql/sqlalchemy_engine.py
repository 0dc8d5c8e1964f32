"""Engines of SQLAlchemy as the database of a relay; imported only where one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from headrace.errors import ConfigError
from headrace.outbox.sql.dialects import POSTGRESQL, dialect_named
from headrace.outbox.sql.relay_database import (
    NotifyConnection,
    RelayDatabase,
    ThreadedDatabase,
    translated,
)
from headrace.outbox.sql.user_connection import SyncConnection

T = TypeVar("T")


def open_database(given: object) -> RelayDatabase:
    if isinstance(given, AsyncEngine):
        return _AsyncDatabase(given.execution_options(**_options(given.dialect)))
    if isinstance(given, sa.Engine):
        return ThreadedDatabase(EngineTransactions(given))
    raise ConfigError(
        f"relay() takes an Engine or AsyncEngine of SQLAlchemy, not {type(given).__name__}"
    )


def _options(dialect: sa.Dialect) -> dict[str, Any]:
    # The engine may be set to autocommit; taking rows is several statements.
    is_postgresql = dialect_named(dialect.name) is POSTGRESQL
    return {"isolation_level": "READ COMMITTED"} if is_postgresql else {}


class EngineTransactions:
    """A thread's transactions on an engine, which is disposed of in the end if it is `owned`."""

    def __init__(self, engine: sa.Engine, *, owned: bool = False) -> None:
        self._engine = engine.execution_options(**_options(engine.dialect))
        self._owned = owned

    @contextmanager
    def begin(self) -> Iterator[SyncConnection]:
        with self._engine.begin() as connection:
            yield connection

    def listener(self) -> NotifyConnection | None:
        if self._engine.driver != "psycopg":
            return None
        connection = self._engine.connect()

        def close() -> None:
            # It is set up for listening: not back into the pool.
            connection.invalidate()
            connection.close()

        return NotifyConnection(connection.connection.driver_connection, close)

    def close(self) -> None:
        if self._owned:
            self._engine.dispose()


class _AsyncDatabase:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def run(self, work: Callable[[SyncConnection], T]) -> T:
        with translated():
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)

    async def listener(self) -> NotifyConnection | None:
        """Its connections can be used only through SQLAlchemy."""
        return None

    async def close(self) -> None:
        """The engine is the user's."""
