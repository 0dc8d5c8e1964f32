"""Statements over many rows at once, numbers that are never used twice, and cursors."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from headrace.core.job.envelope import FORMATS, runner_of
from headrace.errors import ConfigError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_ROWS_TOGETHER = 256
_NUMBER = re.compile(r"-?[0-9]{1,19}")
# SQLite's largest number, and less room to add to it.
_LARGEST = 2**63 - 1
_NEVER_MS = 2**62


def run_rows(
    connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[Any, ...]], *more: Any
) -> int:
    """Run `sql` with `rows` in place of its `{rows}`; returns how many rows it changed.

    A few statements with many rows each: the driver releases the interpreter's lock for each
    statement, and in a busy process gets it back milliseconds later.
    """
    changed = at = 0
    while at < len(rows):
        size = min(1 << (len(rows) - at).bit_length() - 1, _ROWS_TOGETHER)
        values = [*chain.from_iterable(rows[at : at + size]), *more]
        changed += connection.execute(_with_rows(sql, size, len(rows[0])), values).rowcount
        at += size
    return changed


def select_rows(
    connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[Any, ...]], *more: Any
) -> list[Any]:
    """All rows that `sql` returns, with `rows` in place of its `{rows}`."""
    found: list[Any] = []
    at = 0
    while at < len(rows):
        size = min(1 << (len(rows) - at).bit_length() - 1, _ROWS_TOGETHER)
        values = [*chain.from_iterable(rows[at : at + size]), *more]
        found += connection.execute(_with_rows(sql, size, len(rows[0])), values).fetchall()
        at += size
    return found


@lru_cache(maxsize=256)
def _with_rows(sql: str, size: int, width: int) -> str:
    row = f"({','.join('?' * width)})"
    return sql.format(rows=",".join([row] * size))


def runner_number(envelope: bytes) -> int:
    """The number of the runner in an envelope, as jobs have it."""
    return FORMATS[runner_of(envelope)]


def bounded_ms(moment_ms: int) -> int:
    """A moment as SQLite can store it; nothing happens as late as the last one."""
    return min(moment_ms, _NEVER_MS)


def numbers_in(cursor: str, count: int, of: str) -> list[int]:
    """The numbers that make up a cursor."""
    parts = cursor.split("_")
    numbers = [int(part) for part in parts if _NUMBER.fullmatch(part)]
    if len(parts) != count or len(numbers) != count or max(map(abs, numbers)) > _LARGEST:
        raise ConfigError(f"{cursor!r} is not a cursor of {of}: pass on the one that came last")
    return numbers


def page_values(queue: int | None, after: Sequence[int], limit: int) -> dict[str, int | None]:
    """The values of a query for a page: `after` are the numbers of a cursor, as `:first` and on."""
    at = dict(zip(("first", "second", "third", "fourth"), after, strict=False))
    return {"queue": queue, "limit": limit, "last": _LARGEST, **at}


def new_numbers(connection: sqlite3.Connection, count: int) -> int:
    """The first of `count` numbers that were never used before, for row ids and positions."""
    [(last,)] = connection.execute(
        "UPDATE numbers SET last = last + ? RETURNING last", (count,)
    ).fetchall()
    first: int = last - count + 1
    return first


def queue_id(connection: sqlite3.Connection, namespace: str, queue: str) -> int | None:
    """The queue's number; None if nothing was ever sent to it."""
    row = connection.execute(
        "SELECT id FROM queues WHERE namespace = ? AND name = ?", (namespace, queue)
    ).fetchone()
    return row[0] if row else None


def get_or_create_queue_id(connection: sqlite3.Connection, namespace: str, queue: str) -> int:
    """The queue's number; a new one if it had none."""
    known = queue_id(connection, namespace, queue)
    if known is not None:
        return known
    [(new,)] = connection.execute(
        "INSERT INTO queues (namespace, name) VALUES (?, ?) RETURNING id", (namespace, queue)
    ).fetchall()
    number: int = new
    return number
