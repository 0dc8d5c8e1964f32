"""The tables, as SQL; `sql/sqlalchemy_tables.py` says the same in SQLAlchemy's terms."""

from __future__ import annotations

from headrace.outbox.sql.dialects import Dialect


def outbox_ddl(table: str, dialect: Dialect) -> list[str]:
    """Statements that make the outbox, if it is not there. Rows are sent by `position`, which
    grows; `locked_by` and `locked_until_ms` say which relay has a row, `due_ms` from when one that
    was refused is tried again, `failed_ms` since when it is not."""
    return [
        f"""CREATE TABLE IF NOT EXISTS {table} (
    position {dialect.serial},
    id TEXT NOT NULL,
    destination TEXT NOT NULL,
    parcel {dialect.blob} NOT NULL,
    created_ms BIGINT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_ms BIGINT NOT NULL DEFAULT 0,
    locked_until_ms BIGINT NOT NULL DEFAULT 0,
    locked_by TEXT NOT NULL DEFAULT '',
    last_error TEXT NOT NULL DEFAULT '',
    failed_ms BIGINT
)""",
        f"CREATE INDEX IF NOT EXISTS {plain(table)}_locked ON {table} (destination) "
        "WHERE locked_by <> ''",
    ]


def inbox_ddl(table: str) -> list[str]:
    """Statements that make the inbox, if it is not there."""
    return [
        f"""CREATE TABLE IF NOT EXISTS {table} (
    consumer TEXT NOT NULL,
    id TEXT NOT NULL,
    seen_ms BIGINT NOT NULL,
    PRIMARY KEY (consumer, id)
)""",
        f"CREATE INDEX IF NOT EXISTS {plain(table)}_seen ON {table} (seen_ms)",
    ]


def plain(table: str) -> str:
    """The name without its schema."""
    return table.rpartition(".")[2]
