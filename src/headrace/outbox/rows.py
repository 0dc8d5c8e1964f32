"""The rows of an outbox: those that a relay may take, and those that it has given up."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headrace.client.send.coalescer import BATCH, BATCH_BYTES
from headrace.core.bounds import MAX_ERROR_TEXT
from headrace.outbox.sql.dialects import POSTGRESQL, Dialect, Make, Statement
from headrace.outbox.sql.user_connection import SyncConnection, execute


class OutboxRow(NamedTuple):
    position: int
    destination: str
    parcel: Any
    attempts: int
    waited_ms: int


class PendingRows:
    """Takes rows for one relay, and removes, releases or fails them. A row that is taken is this
    relay's alone until `lease_ms` have passed, and so are the others of its destination: two relays
    that send to one place would mix up the order."""

    def __init__(self, table: str, relay: str, lease_ms: int) -> None:
        self._table = table
        self._relay = relay
        self._lease_ms = lease_ms
        self._claim_lock = zlib.crc32(f"headrace outbox {table}".encode())

    def waiting(self, connection: SyncConnection, held: Collection[str]) -> bool:
        """Whether there is something to take: cheap, and locks nothing."""

        def make(dialect: Dialect) -> Statement:
            free, values = self._free(dialect, held)
            return Statement(
                f"SELECT 1 FROM {self._table} WHERE {free} ORDER BY position LIMIT 1", values
            )

        _use_indexes(connection)
        return bool(execute(connection, make).rows)

    def take(self, connection: SyncConnection, held: Collection[str]) -> list[OutboxRow]:
        """The next rows in their order, of no destination in `held`. Nothing if another relay is
        taking some at this moment."""
        if not self._alone(connection):
            return []
        _use_indexes(connection)

        def make(dialect: Dialect) -> Statement:
            free, values = self._free(dialect, held)
            return Statement(
                f"""UPDATE {self._table}
SET locked_by = :relay, locked_until_ms = {dialect.now} + {self._lease_ms}
WHERE position IN (
    SELECT position FROM (
        SELECT position, size, SUM(size) OVER (ORDER BY position) AS total FROM (
            SELECT position, LENGTH(parcel) AS size FROM {self._table}
            WHERE {free} ORDER BY position LIMIT {BATCH} {dialect.skip_locked}
        ) AS next
    ) AS sized WHERE total - size < {BATCH_BYTES}
) RETURNING position, destination, parcel, attempts, {dialect.now} - created_ms""",
                values,
            )

        return sorted(OutboxRow(*row) for row in execute(connection, make).rows)

    def sent(self, connection: SyncConnection, rows: Iterable[OutboxRow]) -> None:
        """Remove rows, except those that another relay has taken over."""
        where = self._these(rows)
        execute(
            connection,
            lambda _: Statement(f"DELETE FROM {self._table} {where}", {"relay": self._relay}),
        )

    def release(self, connection: SyncConnection) -> None:
        """Let others have what this relay still holds."""
        sql = f"UPDATE {self._table} SET locked_by = '', locked_until_ms = 0"
        execute(
            connection,
            lambda _: Statement(f"{sql} WHERE locked_by = :relay", {"relay": self._relay}),
        )

    def refused(
        self, connection: SyncConnection, row: OutboxRow, error: Exception, delay: float | None
    ) -> None:
        """Note an attempt that failed; the row is tried again after `delay` seconds, or never."""
        where = self._these([row])

        def make(dialect: Dialect) -> Statement:
            then = (
                f"failed_ms = {dialect.now}"
                if delay is None
                else f"due_ms = {dialect.now} + {int(delay * 1000)}"
            )
            return Statement(
                f"UPDATE {self._table} SET attempts = attempts + 1, last_error = :error, {then}, "
                f"locked_by = '', locked_until_ms = 0 {where}",
                {"relay": self._relay, "error": error_text(error)},
            )

        execute(connection, make)

    def _alone(self, connection: SyncConnection) -> bool:
        """Whether no other relay takes rows before this transaction ends. SQLite lets one write at
        a time anyway."""

        # After the lock is taken, rows that another relay has just taken must be visible.
        execute(connection, _on_postgresql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        locked = f"SELECT 1 WHERE pg_try_advisory_xact_lock({self._claim_lock})"
        return bool(execute(connection, _on_postgresql(locked)).rows)

    def _free(self, dialect: Dialect, held: Collection[str]) -> tuple[str, dict[str, Any]]:
        """The condition for rows that this relay may take. They include its own: a step that failed
        may have left some behind."""
        values: dict[str, Any] = {"relay": self._relay}
        names = {f"held{number}": name for number, name in enumerate(held)}
        skipped = f"AND destination NOT IN ({', '.join(f':{name}' for name in names)})"
        return (
            f"""failed_ms IS NULL AND due_ms <= {dialect.now} {skipped if names else ""}
AND destination NOT IN (
    SELECT destination FROM {self._table} WHERE locked_by <> ''
    AND locked_by <> :relay AND locked_until_ms > {dialect.now}
)""",
            values | names,
        )

    def _these(self, rows: Iterable[OutboxRow]) -> str:
        positions = ", ".join(str(int(row.position)) for row in rows)
        return f"WHERE locked_by = :relay AND position IN ({positions})"


def _on_postgresql(sql: str) -> Make:
    """A statement for PostgreSQL, and for SQLite one that does nothing and answers."""
    return lambda dialect: Statement(sql if dialect is POSTGRESQL else "SELECT 1")


def _use_indexes(connection: SyncConnection) -> None:
    """For this transaction. An outbox fills and empties faster than statistics are updated: by
    outdated ones, PostgreSQL may read the whole table, or compile the statement."""
    settings = ", ".join(f"set_config('{name}', 'off', true)" for name in ("enable_seqscan", "jit"))
    execute(connection, _on_postgresql(f"SELECT {settings}"))


def error_text(error: BaseException) -> str:
    """An error as text that every database can hold."""
    text = f"{type(error).__name__}: {error}"[:MAX_ERROR_TEXT].replace("\0", "")
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that the relay has given up, after too many refusals."""

    id: str
    """Of the job or event."""
    destination: str
    """The queue, or the log of a topic."""
    created: datetime
    """When it was written."""
    failed: datetime
    """When it was given up."""
    attempts: int
    """How often it was tried."""
    error: str
    """Why the store refused it."""


def failed_rows(connection: SyncConnection, table: str) -> list[FailedRow]:
    """The rows that the relay has given up, oldest first."""
    columns = "id, destination, created_ms, failed_ms, attempts, last_error"
    sql = f"SELECT {columns} FROM {table} WHERE failed_ms IS NOT NULL ORDER BY position"
    rows = execute(connection, lambda _: Statement(sql)).rows
    return [
        FailedRow(row_id, destination, _moment(created), _moment(failed), attempts, error)
        for row_id, destination, created, failed, attempts, error in rows
    ]


def retry_failed(connection: SyncConnection, table: str, id: str | None) -> int:
    """Have given-up rows tried again: all, or that of one job or event. Returns their number."""
    sql = (
        f"UPDATE {table} SET failed_ms = NULL, attempts = 0, due_ms = 0 WHERE failed_ms IS NOT NULL"
    )
    one = "" if id is None else " AND id = :id"
    values = {} if id is None else {"id": id}
    return execute(connection, lambda _: Statement(sql + one, values)).changed


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
