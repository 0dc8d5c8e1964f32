"""What SQLite's errors mean to a caller of the store."""

from __future__ import annotations

import os
import shutil
import sqlite3

from headrace.errors import StoreError, StoreFull, StoreMismatch, StoreUnavailable

# Taking a job and noting its end are writes too. A transaction that finds no room is undone.
UNTIL_ROOM = (
    "until there is some, nothing more can be stored, and waiting jobs cannot be worked off; none "
    "is lost"
)
_TEXT = {
    sqlite3.SQLITE_FULL: "{where}: no room left ({error}): " + UNTIL_ROOM,
    sqlite3.SQLITE_BUSY: "{where}: another process keeps it locked ({error}); try again",
    sqlite3.SQLITE_LOCKED: "{where}: another process keeps it locked ({error}); try again",
    sqlite3.SQLITE_IOERR: "{where}: the disk does not answer as it should ({error})",
    sqlite3.SQLITE_NOTADB: "{where} is not an SQLite file: name another file, or remove this one",
    sqlite3.SQLITE_CORRUPT: "{where} is damaged ({error}): restore it from a copy, or remove it",
    sqlite3.SQLITE_READONLY: "{where} cannot be written: give this user the right to write it",
    sqlite3.SQLITE_PERM: "{where} cannot be opened: give this user the right to read and write it",
    sqlite3.SQLITE_CANTOPEN: "{where} cannot be opened: its directory must exist and be writable, "
    "and it must be a file",
}
_MISMATCHES = (
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_CANTOPEN,
)
# What SQLite says if there is no room for the -shm and -wal files, which the first to open makes.
_MAYBE_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
# Less room than this on a disk is none: the log and the file grow by pieces.
_LITTLE_ROOM = 2**20
_PRIMARY_CODE = 0xFF


def is_busy(error: Exception) -> bool:
    """Whether another connection keeps the file locked, so that waiting helps."""
    return _code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code_of(error: Exception) -> int:
    # The driver's own errors, such as a closed connection, have no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & _PRIMARY_CODE


def has_room(path: str) -> bool:
    """Whether the disk of a file has any room left."""
    try:
        return shutil.disk_usage(os.path.dirname(os.path.realpath(path))).free >= _LITTLE_ROOM
    except OSError:
        return True


def translated(
    error: Exception, where: str, *, unknown: bool = False, opening: bool = False
) -> Exception:
    """An SQLite error as one of Headrace, with `where` as the name of the file; others unchanged.
    `unknown` says that the request may have been applied, `opening` that nothing was asked yet."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = _code_of(error)
    if opening and code in _MAYBE_FULL and not has_room(where):
        code = sqlite3.SQLITE_FULL
    text = _TEXT.get(code, "{where}: {error}").format(where=where, error=error)
    if unknown:
        return StoreUnavailable(text, sent=True)
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(text)
    if code in _MISMATCHES:
        return StoreMismatch(text)
    if code in _TEXT:
        # A disk that failed during a write may still have written it.
        return StoreUnavailable(text, sent=code == sqlite3.SQLITE_IOERR)
    return StoreError(text)
