"""Statements and tables through SQLAlchemy; imported only where it is used."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from headrace.errors import ConfigError
from headrace.outbox.dialects import Make, StatementResult, dialect_named


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


def outbox_table(name: str, metadata: sa.MetaData) -> sa.Table:
    """The outbox as a table of `metadata`, the same as its DDL makes."""
    schema, _, plain = name.rpartition(".")
    held = sa.text("locked_by <> ''")
    return sa.Table(
        plain,
        metadata,
        sa.Column("position", _serial(), sa.Identity(), primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("destination", sa.Text, nullable=False),
        sa.Column("parcel", sa.LargeBinary, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        _number("attempts", sa.Integer()),
        _number("due_ms"),
        _number("locked_until_ms"),
        sa.Column("locked_by", sa.Text, nullable=False, server_default=""),
        sa.Column("last_error", sa.Text, nullable=False, server_default=""),
        sa.Column("failed_ms", sa.BigInteger),
        sa.Index(
            f"{plain}_locked", "destination", postgresql_where=held, sqlite_where=held
        ),
        schema=schema or None,
        sqlite_autoincrement=True,
    )  # fmt: skip


def inbox_table(name: str, metadata: sa.MetaData) -> sa.Table:
    """The inbox as a table of `metadata`, the same as its DDL makes."""
    schema, _, plain = name.rpartition(".")
    return sa.Table(
        plain,
        metadata,
        sa.Column("consumer", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
        sa.Index(f"{plain}_seen", "seen_ms"),
        schema=schema or None,
    )


def _serial() -> Any:
    # SQLite numbers rows only if the column is an INTEGER.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _number(name: str, kind: Any = None) -> sa.Column[int]:
    return sa.Column(name, kind or sa.BigInteger(), nullable=False, server_default="0")
