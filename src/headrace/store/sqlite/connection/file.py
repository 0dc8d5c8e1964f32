"""The file under a connection: whether it is still the one that its path names, and how long its
write-ahead log is."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from headrace.errors import StoreError, StoreUnavailable
from headrace.store.sqlite.connection import schema
from headrace.store.sqlite.connection.errors import UNTIL_ROOM, has_room
from headrace.store.sqlite.connection.schema import Connection

log = logging.getLogger("headrace.store")

LOOK_SECONDS = 0.2
# A program that replaces the file may remove the old one a moment before the new one is there.
_PATIENCE_SECONDS = 1.0
# Autocheckpoints keep the log at half of this, as long as there are moments without readers.
LOG_BYTES = 32 * 2**20
_LOUD_BYTES = 64 * 2**20
_CUT_EVERY_SECONDS = 1.0
# Nobody can write while readers are waited for.
_CUT_WAIT_SECONDS = 0.1
_ENDED = (
    ". Jobs that are running now are ended, as if their leases were lost; those that the file has "
    "run again"
)


class _Identity(NamedTuple):
    device: int
    inode: int


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return _Identity(found.st_dev, found.st_ino)


def risks_of(path: str) -> tuple[str, ...]:
    """What is wrong around the files of a database, each as a sentence that says what to do."""
    home = os.path.realpath(path)
    room = () if has_room(path) else (f"{path}: its disk has no room left; {UNTIL_ROOM}",)
    return (*_modes_at_risk(home), *_log_at_risk(path, home), *room)


def _modes_at_risk(home: str) -> tuple[str, ...]:
    """Whether every user of the machine may read or write the files. One that was there before it
    was opened keeps its mode, and its logs get that."""
    found = {name: _open_to_all(name) for name in (home, f"{home}-wal", f"{home}-shm")}
    open_files = [name for name, mode in found.items() if mode]
    if not open_files:
        return ()
    first = open_files[0]
    may = "read and change" if any(mode & stat.S_IWOTH for mode in found.values()) else "read"
    return (
        f"{first} has the mode {found[first]:04o}: every user of this machine can {may} its jobs; "
        f"end that with chmod o= {shlex.join(open_files)}",
    )


def _log_at_risk(path: str, home: str) -> tuple[str, ...]:
    """Whether someone keeps the log from being cut: it was tried right before, if it is long."""
    try:
        size = os.stat(f"{home}-wal").st_size
    except OSError:
        return ()
    return (_long_log(path, size),) if size > _LOUD_BYTES else ()


def _long_log(path: str, size: int) -> str:
    return (
        f"the write-ahead log of {path} has grown to {size >> 20} MiB: someone has been reading "
        "the file in one transaction for long, and it cannot be cut until that ends; fuser -v "
        f"{shlex.quote(path)} lists who has the file open"
    )


def _open_to_all(name: str) -> int:
    """The mode of a file that others than its owner and group may open; 0 if they may not."""
    if os.name != "posix":
        # Modes there say nothing of who may open a file.
        return 0
    try:
        mode = stat.S_IMODE(os.stat(name).st_mode)
    except OSError:
        return 0
    return mode if mode & (stat.S_IROTH | stat.S_IWOTH) else 0


class DatabaseFile:
    """The connection to one database. If the file or its write-ahead log is deleted or replaced,
    what the path names then is opened in its place, as soon as it is there and does not change for
    a moment. `connection` is None until then. Used by one thread."""

    def __init__(
        self,
        path: str,
        connection: Connection,
        connect: Callable[[], Connection],
        generation: int = 0,
    ) -> None:
        self.path = path
        self._connect = connect
        self.connection: Connection | None = connection
        self.generation = connection.generation = generation
        """Counts the files that were opened in place of another."""
        self.trouble: StoreError = StoreUnavailable(f"{path} is not open")
        self._home = path
        self._known: list[_Identity | None] = []
        self._learn()
        self._lost_at = 0.0
        self._seen: tuple[int, ...] | None = None
        self._is_same = False
        self._cut_at = 0.0
        self._loud_bytes = _LOUD_BYTES

    def tend(self) -> bool:
        """Call this now and then between transactions; returns whether the connection has
        changed."""
        if self.path == schema.MEMORY:
            return False
        if self.connection is None:
            return self._find_again()
        if (what := self._what_is_lost()) is not None:
            self._let_go(self.connection, what)
            return True
        self._bound_log(self.connection)
        return False

    def close(self) -> None:
        if self.connection is None or self.path == schema.MEMORY:
            return
        if self._what_is_lost() == "file":
            _keep_for_ever(self.connection)
        else:
            self.connection.close()

    def _learn(self) -> None:
        """Remember the files of a new connection. If the path is a link, SQLite keeps its logs
        beside the file itself."""
        self._home = os.path.realpath(self.path)
        self._known = self._identities()

    def _identities(self) -> list[_Identity | None]:
        return [_identity(name) for name in (self.path, *self._logs)]

    @property
    def _logs(self) -> tuple[str, str]:
        return f"{self._home}-wal", f"{self._home}-shm"

    def _what_is_lost(self) -> str | None:
        now = self._identities()
        if now == self._known:
            return None
        if now[0] != self._known[0]:
            return "file"
        # SQLite creates logs when it needs them; only those that were there can be lost.
        missed = [old for old, new in zip(self._known, now, strict=True) if old and old != new]
        self._known = [old or new for old, new in zip(self._known, now, strict=True)]
        return "log" if missed else None

    def _let_go(self, connection: Connection, what: str) -> None:
        self.connection, self._lost_at, self._seen = None, time.monotonic(), None
        self._is_same = False
        if what == "file":
            how = "replaced" if os.path.exists(self.path) else "deleted"
            text = f"{self.path} was {how} while it was in use: what only the old file had is lost"
            _keep_for_ever(connection)
            self._remove_old_logs()
        else:
            text = f"the -wal or -shm file of {self.path} was deleted or replaced while in use"
            self._is_same = _save(connection, has_other_log=self._has_other_log())
            text += "" if self._is_same else ": what only that log had is lost"
            connection.close()
        self.trouble = StoreUnavailable(f"{text}; waiting for the file that the path names now")
        log.warning(
            "%s; what the path names now is opened in its place%s",
            text,
            "" if self._is_same else _ENDED,
            extra={"path": str(self.path)},
        )

    def _has_other_log(self) -> bool:
        return _identity(self._logs[0]) not in (None, self._known[1])

    def _remove_old_logs(self) -> None:
        """Delete the old logs: SQLite would apply them to the new file and damage it."""
        if _identity(self._home) == self._known[0]:
            # Only the link has changed: the old file is where it was, and keeps its logs.
            return
        for name, known in zip(self._logs, self._known[1:], strict=True):
            if known is not None and _identity(name) == known:
                with contextlib.suppress(OSError):
                    os.unlink(name)

    def _find_again(self) -> bool:
        since = time.monotonic() - self._lost_at
        before, self._seen = self._seen, self._state()
        if self._seen is None and since < _PATIENCE_SECONDS:
            return False
        # The file may still be in the middle of being copied.
        if self._seen is not None and self._seen != before and since < 5 * _PATIENCE_SECONDS:
            return False
        try:
            connection = self._connect()
        except StoreError as error:
            if str(error) != str(self.trouble):
                log.warning(
                    "%s cannot be opened again: %s",
                    self.path,
                    error,
                    extra={"path": str(self.path)},
                )
            self.trouble = error
            return False
        self.generation += not self._is_same
        connection.generation = self.generation
        self.connection = connection
        self._learn()
        log.warning(
            "%s is open again%s",
            self.path,
            "" if self._seen else ", as a new, empty file",
            extra={"path": str(self.path)},
        )
        return True

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _bound_log(self, connection: Connection) -> None:
        """Cut the log back if it is long: SQLite never does while there are always readers."""
        now = time.monotonic()
        if now < self._cut_at:
            return
        self._cut_at = now + _CUT_EVERY_SECONDS
        try:
            size = os.stat(self._logs[0]).st_size
        except OSError:
            return
        if size <= LOG_BYTES or _cut(connection):
            self._loud_bytes = _LOUD_BYTES
        elif size > self._loud_bytes:
            self._loud_bytes = 2 * size
            log.warning("%s", _long_log(self.path, size), extra={"path": str(self.path)})


def _cut(connection: Connection) -> bool:
    """Write the log into the file and empty it; returns whether all of it could be."""
    try:
        schema.be_patient(connection, _CUT_WAIT_SECONDS)
        [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error:
        return False
    finally:
        schema.be_patient(connection, schema.LOCK_SECONDS)
    return not busy


def _save(connection: Connection, *, has_other_log: bool) -> bool:
    """Write a deleted log into the file; returns whether that was possible. It is not once others
    have begun another log."""
    if has_other_log:
        return False
    try:
        schema.be_patient(connection, schema.BUSY_SECONDS)
        [(busy, length, done)] = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
    except sqlite3.Error:
        return False
    return not busy and bool(length == done)


def _keep_for_ever(connection: Connection) -> None:
    # When the last connection to a file is closed, SQLite deletes the -wal and -shm files by name,
    # and those names belong to the new file now. So this connection is never closed, not even at
    # exit.
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA shrink_memory")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
