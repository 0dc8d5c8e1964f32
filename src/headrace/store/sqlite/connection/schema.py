"""Opening a Headrace file, and bringing it to the present version."""

from __future__ import annotations

import os
import sqlite3
import time
from functools import partial

from headrace.core import address
from headrace.core.address import DEFAULT_OPTIONS, SqliteOptions
from headrace.errors import StoreMismatch
from headrace.store.sqlite.connection.errors import is_busy, translated
from headrace.store.sqlite.connection.tables import UPGRADES

APPLICATION_ID = 0x48656164  # "Head"; shown by `file` and other programs.
MEMORY = address.MEMORY
# How long opening, and each write, wait for others that write. On a machine that is loaded, twenty
# processes that open a new file at once take turns for longer than five seconds.
BUSY_SECONDS = 30.0
# How long SQLite itself waits for a lock once the file is open. Others write for milliseconds;
# whoever waits for longer goes on reading meanwhile, and tries again.
LOCK_SECONDS = 0.01
# Between two attempts where SQLite does not wait by itself: it answers at once if waiting could be
# a deadlock, and while another process makes or deletes the write-ahead log.
_PAUSE = 0.005
_OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING

VERSION = len(UPGRADES)

_IDENTITY = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version"""
_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    # A log that once grew long is cut back, else it is written over in place.
    "PRAGMA journal_size_limit = 33554432",
    "PRAGMA wal_autocheckpoint = 2000",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
)
# What is deleted is overwritten in pages that are written anyway, or also in those that become
# free, which writes them once more. Builds of SQLite differ in which of these they do by default.
_SECURE_DELETE = {False: "PRAGMA secure_delete = FAST", True: "PRAGMA secure_delete = ON"}
# Private to the connection, in memory, and rolled back with the rest of a transaction.
_COMMITTED = "CREATE TEMP TABLE committed (number INTEGER NOT NULL)"


_text = partial(str, encoding="utf-8", errors="replace")


class Connection(sqlite3.Connection):
    """`generation` counts how often the file at this path was replaced before this connection was
    made: deliveries from earlier files must not be taken for those of this one."""

    generation = 0


def connect(path: str, options: SqliteOptions = DEFAULT_OPTIONS) -> Connection:
    """A connection to the Headrace file at `path`, created if it does not exist; `MEMORY` is a new
    database in memory. Raises a `StoreError` that says what to do if the file is not usable."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreMismatch(
            f"this Python's SQLite is {sqlite3.sqlite_version}; Headrace needs "
            f"{'.'.join(map(str, _OLDEST_SQLITE))} or newer"
        )
    if path != MEMORY:
        _make_private(path)
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _opened(path, options)
        except sqlite3.Error as error:
            if not is_busy(error) or time.monotonic() >= give_up:
                raise translated(error, path, opening=True) from error
            time.sleep(_PAUSE)


def _opened(path: str, options: SqliteOptions) -> Connection:
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=Connection,
    )
    try:
        _prepare(connection, path, options)
        be_patient(connection, LOCK_SECONDS)
    except BaseException:
        connection.close()
        raise
    return connection


def be_patient(connection: sqlite3.Connection, seconds: float) -> None:
    """Have SQLite wait so long for others that keep the file locked."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


def _make_private(path: str) -> None:
    # Arguments of jobs can be secrets. SQLite gives its -wal and -shm files the mode of this one.
    try:
        # A link to no file yet is followed: SQLite would create the file with a wide mode.
        there = os.path.realpath(path)
        os.close(os.open(there, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreMismatch(
            f"{path} cannot be created ({error.strerror}): its directory must exist and be writable"
        ) from error


def _prepare(connection: sqlite3.Connection, path: str, options: SqliteOptions) -> None:
    # Before anything is written: a file of another program must stay as it is.
    _checked_version(connection, path)
    # A text column can hold any bytes; all of them must be readable.
    connection.text_factory = _text
    if path != MEMORY:
        _use_wal(connection, path)
    for pragma in (*_PRAGMAS, _SECURE_DELETE[options.secure_delete]):
        connection.execute(pragma)
    connection.execute(_COMMITTED)
    connection.execute("INSERT INTO temp.committed VALUES (0)")
    _upgrade(connection, path)


def _checked_version(connection: sqlite3.Connection, path: str) -> int:
    """The file's schema version, 0 for an empty file; refuses what this Headrace cannot use."""
    # One statement sees one state of the file, even while another process makes its tables.
    application, version, tables = connection.execute(_IDENTITY).fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreMismatch(
            f"{path} is an SQLite file of another program: name another file for Headrace"
        )
    if version > VERSION:
        raise StoreMismatch(
            f"{path} was written by a newer Headrace (schema {version}, this one knows up to "
            f"{VERSION}): upgrade headrace"
        )
    found: int = version
    return found


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    # SQLite does not wait for a lock here: of two processes that create the file at the same moment
    # one has to try again.
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreMismatch(
            f"{path}: SQLite cannot keep a write-ahead log there; use a file on a local disk"
        )


def _upgrade(connection: sqlite3.Connection, path: str) -> None:
    # Even when there is nothing to do: a file that cannot be written is detected now.
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _checked_version(connection, path)
        for statements in UPGRADES[version:]:
            for statement in statements:
                connection.execute(statement)
        if version < VERSION:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
