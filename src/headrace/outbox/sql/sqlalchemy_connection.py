"""A statement through a session or connection of SQLAlchemy; imported only where one is used."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from headrace.errors import ConfigError
from headrace.outbox.sql.dialects import Make, StatementResult, dialect_named


def execute(given: object, make: Make) -> StatementResult:
    """Carry out a statement in the transaction of a session or connection."""
    connection = given.connection() if isinstance(given, Session | scoped_session) else given
    if not isinstance(connection, sa.Connection):
        raise ConfigError(f"give a Session or Connection of SQLAlchemy, not {given!r}")
    sql, values = make(dialect_named(connection.dialect.name))
    result = connection.execute(sa.text(sql), dict(values))
    if result.returns_rows:
        return StatementResult([tuple(row) for row in result], 0)
    return StatementResult([], max(result.rowcount, 0))


async def execute_async(given: object, make: Make) -> StatementResult:
    if not isinstance(given, AsyncSession | AsyncConnection):
        raise ConfigError(f"give an AsyncSession or AsyncConnection of SQLAlchemy, not {given!r}")
    return await given.run_sync(execute, make)
