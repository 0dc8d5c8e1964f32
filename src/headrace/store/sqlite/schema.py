"""What a Headrace file looks like, and how one is opened."""

from __future__ import annotations

import os
import sqlite3
import time

from headrace.errors import StoreMismatch
from headrace.store.sqlite.failures import translated

MEMORY = ":memory:"
APPLICATION_ID = 0x48656164  # "Head"; makes `file` and other programs tell the file apart.
BUSY_SECONDS = 5.0
_OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING

# A row id is given to a job anew each time it takes a new place, and none is given twice, so that
# (id, count) names one delivery for ever. `time_ms` is what the state makes of it: when a scheduled
# job is due, until when a running one is leased, when a dead one died.
_FIRST = (
    "CREATE TABLE queues (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL,"
    " UNIQUE (namespace, name))",
    # When abandoned jobs were last looked for; also in queues that nothing was sent to yet.
    "CREATE TABLE looks (namespace TEXT NOT NULL, queue TEXT NOT NULL, looked_ms INTEGER NOT NULL,"
    " hold_until_ms INTEGER NOT NULL, PRIMARY KEY (namespace, queue)) WITHOUT ROWID",
    "CREATE TABLE numbers (last INTEGER NOT NULL)",
    "INSERT INTO numbers VALUES (0)",
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, key BLOB NOT NULL,"
    " state TEXT NOT NULL, position INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',"
    " reason TEXT NOT NULL DEFAULT '', past BLOB NOT NULL DEFAULT x'', envelope BLOB NOT NULL)",
    "CREATE UNIQUE INDEX jobs_by_key ON jobs (queue, key)",
    "CREATE INDEX jobs_waiting ON jobs (queue, position) WHERE state = 'waiting'",
    "CREATE INDEX jobs_scheduled ON jobs (queue, time_ms) WHERE state = 'scheduled'",
    "CREATE INDEX jobs_running ON jobs (queue, time_ms) WHERE state = 'running'",
    "CREATE INDEX jobs_dead ON jobs (queue, time_ms) WHERE state = 'dead'",
    "CREATE TABLE results (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, key BLOB NOT NULL,"
    " expires_ms INTEGER NOT NULL, verdict BLOB NOT NULL, UNIQUE (queue, key))",
    "CREATE INDEX results_by_expiry ON results (expires_ms)",
)
# Bodies stand last in a row, so that what decides is read without them. `lane` is the lane that the
# job has a place in, `gate` the line that a blocked one stands in, `flags` what else there is of it
# (see `entries`).
_SECOND = (
    "DROP INDEX jobs_by_key",
    "DROP INDEX jobs_waiting",
    "DROP INDEX jobs_scheduled",
    "DROP INDEX jobs_running",
    "DROP INDEX jobs_dead",
    "ALTER TABLE jobs RENAME TO first_jobs",
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, key BLOB NOT NULL,"
    " state TEXT NOT NULL, position INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',"
    " reason TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL DEFAULT 0,"
    " flags INTEGER NOT NULL DEFAULT 0, lane TEXT NOT NULL DEFAULT '',"
    " gate TEXT NOT NULL DEFAULT '', ties BLOB NOT NULL DEFAULT x'',"
    " past BLOB NOT NULL DEFAULT x'', inputs BLOB NOT NULL DEFAULT x'', envelope BLOB NOT NULL)",
    "INSERT INTO jobs (id, queue, key, state, position, time_ms, count, owner, reason, flags, past,"
    " envelope) SELECT id, queue, key, state, position, time_ms, count, owner, reason,"
    " CASE past WHEN x'' THEN 0 ELSE 64 END, past, envelope FROM first_jobs",
    "DROP TABLE first_jobs",
    "CREATE UNIQUE INDEX jobs_by_key ON jobs (queue, key)",
    "CREATE INDEX jobs_waiting ON jobs (queue, priority DESC, position) WHERE state = 'waiting'",
    "CREATE INDEX jobs_scheduled ON jobs (queue, time_ms) WHERE state = 'scheduled'",
    "CREATE INDEX jobs_running ON jobs (queue, time_ms) WHERE state = 'running'",
    "CREATE INDEX jobs_dead ON jobs (queue, time_ms) WHERE state = 'dead'",
    "CREATE INDEX jobs_blocked ON jobs (queue) WHERE state = 'blocked'",
    "CREATE INDEX jobs_in_line ON jobs (queue, gate, position) WHERE gate != ''",
    "CREATE INDEX jobs_in_lane ON jobs (queue, lane) WHERE lane != ''",
    "CREATE INDEX jobs_cancelling ON jobs (queue) WHERE flags & 1",
    # Of what has ended, `until_ms` says how long the name is still taken.
    "CREATE TABLE uniques (queue INTEGER NOT NULL, name TEXT NOT NULL, key BLOB NOT NULL,"
    " until_ms INTEGER, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE INDEX uniques_by_end ON uniques (until_ms) WHERE until_ms IS NOT NULL",
    "CREATE TABLE ticks (queue INTEGER NOT NULL, schedule TEXT NOT NULL, last_ms INTEGER NOT NULL,"
    " PRIMARY KEY (queue, schedule)) WITHOUT ROWID",
    # `known_as` is the key by which the child knows its parent: another one if the parent stands
    # for a job that was not added.
    "CREATE TABLE children (queue INTEGER NOT NULL, parent BLOB NOT NULL, child_queue TEXT NOT"
    " NULL, child BLOB NOT NULL, known_as BLOB NOT NULL, runs_anyway INTEGER NOT NULL,"
    " PRIMARY KEY (queue, parent, child_queue, child, known_as)) WITHOUT ROWID",
    # What a job blocked by a flow waits for, and what it will do then.
    "CREATE TABLE joins (queue INTEGER NOT NULL, child BLOB NOT NULL, remaining INTEGER NOT NULL,"
    " delay_ms INTEGER, at_ms INTEGER, PRIMARY KEY (queue, child)) WITHOUT ROWID",
    "CREATE TABLE parents (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, child BLOB NOT NULL,"
    " parent BLOB NOT NULL, place INTEGER NOT NULL, arrived INTEGER NOT NULL DEFAULT 0,"
    " value BLOB NOT NULL DEFAULT x'', UNIQUE (queue, child, parent, place))",
    # By name: a queue can be paused before anything is sent to it. No task: the queue itself.
    "CREATE TABLE pauses (namespace TEXT NOT NULL, queue TEXT NOT NULL, task TEXT NOT NULL,"
    " PRIMARY KEY (namespace, queue, task)) WITHOUT ROWID",
    # `passed` counts jobs that were let through and have not begun; `spent_until_ms` is when the
    # burst is whole again; `opens_ms` when the line is to be looked at, null for nobody or never.
    "CREATE TABLE limits (queue INTEGER NOT NULL, name TEXT NOT NULL, passed INTEGER NOT NULL,"
    " spent_until_ms REAL NOT NULL, opens_ms INTEGER, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE TABLE starts (queue INTEGER NOT NULL, name TEXT NOT NULL, at_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL, expires_ms INTEGER NOT NULL, PRIMARY KEY (queue, name, at_ms))"
    " WITHOUT ROWID",
    "CREATE TABLE progress (queue INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (queue, key)) WITHOUT ROWID",
    "CREATE TABLE logs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, key BLOB NOT NULL,"
    " following INTEGER NOT NULL, expires_ms INTEGER NOT NULL, UNIQUE (queue, key))",
    "CREATE INDEX logs_by_expiry ON logs (expires_ms)",
    "CREATE TABLE lines (log INTEGER NOT NULL, number INTEGER NOT NULL, line TEXT NOT NULL,"
    " PRIMARY KEY (log, number)) WITHOUT ROWID",
    "CREATE TABLE marks (queue INTEGER NOT NULL, key BLOB NOT NULL, name TEXT NOT NULL,"
    " value BLOB NOT NULL, PRIMARY KEY (queue, key, name)) WITHOUT ROWID",
    "CREATE TABLE notes (namespace TEXT NOT NULL, space TEXT NOT NULL, name TEXT NOT NULL,"
    " value BLOB NOT NULL, expires_ms INTEGER, PRIMARY KEY (namespace, space, name))"
    " WITHOUT ROWID",
    # `first` numbers the facts of a queue through all its rows, from 1.
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, first INTEGER NOT NULL,"
    " count INTEGER NOT NULL, at_ms INTEGER NOT NULL, facts BLOB NOT NULL, UNIQUE (queue, first))",
    "CREATE TABLE counters (queue INTEGER NOT NULL, minute INTEGER NOT NULL, task TEXT NOT NULL,"
    " kind TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (queue, minute, task, kind))"
    " WITHOUT ROWID",
)
_UPGRADES = (_FIRST, _SECOND)
"""What brings a file of version n to version n + 1."""
VERSION = len(_UPGRADES)

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


def connect(path: str) -> sqlite3.Connection:
    """A connection to the Headrace file at `path`, which is made if it does not exist; `MEMORY` is
    a new database in memory. Raises `StoreError` that says what to do about it if it won't do."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreMismatch(
            f"this Python's SQLite is {sqlite3.sqlite_version}; Headrace needs "
            f"{'.'.join(map(str, _OLDEST_SQLITE))} or newer"
        )
    if path != MEMORY:
        _make_private(path)
    try:
        connection = sqlite3.connect(
            path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        _prepare(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise translated(error, path) from error
        raise
    return connection


def _make_private(path: str) -> None:
    # Arguments of jobs can be secrets. SQLite gives its -wal and -shm files the mode of this one.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreMismatch(
            f"{path} cannot be made ({error.strerror}): its directory must exist and be writable"
        ) from error


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    # Before anything is written: a file that is not ours must stay as it is.
    _checked_version(connection, path)
    if path != MEMORY:
        _use_wal(connection, path)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
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
    # SQLite does not wait for a lock here, so two processes that make the file at the same moment
    # would get in each other's way.
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > give_up:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise StoreMismatch(
            f"{path}: SQLite cannot keep a write-ahead log there; use a file on a local disk"
        )


def _upgrade(connection: sqlite3.Connection, path: str) -> None:
    # Taken even when there is nothing to do: a file that cannot be written is found out now.
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _checked_version(connection, path)
        for statements in _UPGRADES[version:]:
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
