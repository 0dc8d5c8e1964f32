"""Small values under a name, some for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from headrace.store.sqlite.rows import bounded_ms
from headrace.store.sqlite.signals import News

if TYPE_CHECKING:
    import sqlite3

Expected = bytes | Literal["anything"] | None

_FIND = """
    SELECT value FROM notes
    WHERE namespace = ? AND space = ? AND name = ? AND (expires_ms IS NULL OR expires_ms > ?)"""
_ALL = """
    SELECT name, value FROM notes
    WHERE namespace = ? AND space = ? AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY name"""
_WRITE = """
    INSERT OR REPLACE INTO notes (namespace, space, name, value, expires_ms)
    VALUES (?, ?, ?, ?, ?)"""
_REMOVE = "DELETE FROM notes WHERE namespace = ? AND space = ? AND name = ?"


class Note(msgspec.Struct, frozen=True):
    """A value to keep, or None to remove it, if what is there is what is expected."""

    namespace: str
    space: str
    name: str
    value: bytes | None
    ttl: float | None
    expected: Expected

    def write(self, connection: sqlite3.Connection, news: list[News], now_ms: int) -> bool:
        """Whether it was done."""
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
            news.append(News("notes", self.space))
        return True


def notes(
    connection: sqlite3.Connection, *, namespace: str, space: str, now_ms: int
) -> dict[str, bytes]:
    return dict(connection.execute(_ALL, (namespace, space, now_ms)).fetchall())
