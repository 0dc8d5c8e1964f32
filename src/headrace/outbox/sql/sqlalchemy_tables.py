"""The outbox and the inbox as tables of SQLAlchemy; imported only where they are used."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


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
