"""Rows of an outbox that the relay has given up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.outbox.connections import SyncConnection, execute
from headrace.outbox.dialects import Statement


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that was refused so often that the relay leaves it alone."""

    id: str
    """Of the job or event."""
    destination: str
    """The queue, or the log of a topic."""
    created: datetime
    failed: datetime
    attempts: int
    error: str


def read(connection: SyncConnection, table: str) -> list[FailedRow]:
    """All of them, oldest first."""
    columns = "id, destination, created_ms, failed_ms, attempts, last_error"
    sql = f"SELECT {columns} FROM {table} WHERE failed_ms IS NOT NULL ORDER BY position"
    rows = execute(connection, lambda _: Statement(sql)).rows
    return [
        FailedRow(row_id, destination, _moment(created), _moment(failed), attempts, error)
        for row_id, destination, created, failed, attempts, error in rows
    ]


def retry(connection: SyncConnection, table: str, id: str | None) -> int:
    """Have them tried anew, or the one of this job or event; how many."""
    sql = (
        f"UPDATE {table} SET failed_ms = NULL, attempts = 0, due_ms = 0 WHERE failed_ms IS NOT NULL"
    )
    one = "" if id is None else " AND id = :id"
    values = {} if id is None else {"id": id}
    return execute(connection, lambda _: Statement(sql + one, values)).changed


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
