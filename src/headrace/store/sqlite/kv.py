"""Key-value pairs, some with a time to live, and logs of records made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from headrace.store.sqlite.connection.signals import Notification
from headrace.store.sqlite.rows import bounded_ms

if TYPE_CHECKING:
    import sqlite3

    from headrace.store.oddities import Oddities

Expected = bytes | Literal["anything"] | None

_FIND = """
    SELECT value FROM kv
    WHERE namespace = ? AND space = ? AND name = ? AND (expires_ms IS NULL OR expires_ms > ?)"""
_ALL = """
    SELECT CAST(name AS BLOB), CAST(value AS BLOB) FROM kv
    WHERE namespace = ? AND space = ? AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY name"""
_WRITE = """
    INSERT OR REPLACE INTO kv (namespace, space, name, value, expires_ms)
    VALUES (?, ?, ?, ?, ?)"""
_REMOVE = "DELETE FROM kv WHERE namespace = ? AND space = ? AND name = ?"
_PAGE = """
    SELECT name, CAST(value AS BLOB) FROM kv
    WHERE namespace = ? AND space = ? AND name >= ? AND name < ? ORDER BY name DESC LIMIT ?"""
_TRIM = "DELETE FROM kv WHERE namespace = ? AND space = ? AND name < ?"
_BOUND = """
    SELECT name FROM kv
    WHERE namespace = ? AND space = ? ORDER BY name DESC LIMIT 1 OFFSET ?"""
# After all names, which begin with a digit.
_END = "~"


class KvWrite(msgspec.Struct, frozen=True):
    """A value to write, or None to delete it, if the present value is as expected."""

    namespace: str
    space: str
    name: str
    value: bytes | None
    ttl: float | None
    expected: Expected

    def write(
        self, connection: sqlite3.Connection, notifications: list[Notification], now_ms: int
    ) -> bool:
        """Returns whether it was done."""
        place = (self.namespace, self.space, self.name)
        if self.expected != "anything":
            found = connection.execute(_FIND, (*place, now_ms)).fetchone()
            if (found[0] if found else None) != self.expected:
                return False
        if self.value is None:
            connection.execute(_REMOVE, place)
        else:
            expires = None if self.ttl is None else bounded_ms(now_ms + round(self.ttl * 1000))
            connection.execute(_WRITE, (*place, self.value, expires))
        if self.ttl is None:
            notifications.append(Notification("kv", self.space))
        return True


def kv_all(
    connection: sqlite3.Connection, namespace: str, *, space: str, now_ms: int, oddities: Oddities
) -> dict[str, bytes]:
    found = dict(connection.execute(_ALL, (namespace, space, now_ms)).fetchall())
    where = f"table kv, space {space!r}"
    return {name: found[name.encode()] for name in oddities.texts(where, found)}


class LogRecord(msgspec.Struct, frozen=True):
    """A record of a log. Records are in the order of their names."""

    namespace: str
    space: str
    name: str
    value: bytes
    keep_ms: int
    most: int

    def write(
        self, connection: sqlite3.Connection, notifications: list[Notification], now_ms: int
    ) -> None:
        place = (self.namespace, self.space)
        connection.execute(
            _WRITE, (*place, self.name, self.value, bounded_ms(now_ms + self.keep_ms))
        )
        connection.execute(_TRIM, (*place, oldest_name(now_ms, self.keep_ms)))
        bound = connection.execute(_BOUND, (*place, self.most - 1)).fetchone()
        if bound is not None:
            connection.execute(_TRIM, (*place, bound[0]))


def records(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    space: str,
    before: str,
    limit: int,
    oldest: str,
) -> list[tuple[str, bytes]]:
    asked = (namespace, space, oldest, before or _END, limit)
    return connection.execute(_PAGE, asked).fetchall()


def oldest_name(now_ms: int, keep_ms: int) -> str:
    """Entries with names before this one are too old."""
    return f"{max(0, now_ms - keep_ms):014d}"
