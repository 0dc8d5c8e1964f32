"""What jobs tell of themselves while they run: how far they are, lines of a log, what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import LOG_LINES, LOG_TTL
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import MARKED, REPORTED
from headrace.store.sqlite.rows import queue_id, run_rows
from headrace.store.values import LogPage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.ids import JobKey
    from headrace.store.sqlite.step import Step
    from headrace.store.values import Report

_TELL = "INSERT OR REPLACE INTO progress (queue, key, value) VALUES {rows}"
_FORGET = "DELETE FROM {table} WHERE key IN (VALUES {{rows}}) AND queue = ?"
_FORGET_PROGRESS = _FORGET.format(table="progress")
_FORGET_ONCE = _FORGET.format(table="once")
_OPEN_LOG = """
    INSERT INTO logs (queue, key, following, expires_ms) VALUES (?, ?, ?, ?)
    ON CONFLICT (queue, key) DO UPDATE
    SET following = following + excluded.following, expires_ms = excluded.expires_ms
    RETURNING id, following"""
_WRITE = "INSERT INTO lines (log, number, line) VALUES {rows}"
_CUT = "DELETE FROM lines WHERE log = ? AND number < ?"
_LOG = """
    SELECT id, following FROM logs WHERE queue = ? AND key = ? AND expires_ms > ?"""
_LINES = (
    "SELECT number, CAST(line AS TEXT) FROM lines WHERE log = ? AND number >= ? ORDER BY number"
)
_MARK_ONCE = "INSERT OR REPLACE INTO once (queue, key, name, value) VALUES (?, ?, ?, ?)"
_MARKS = """
    SELECT CAST(name AS TEXT), CAST(value AS BLOB) FROM once WHERE queue = ? AND key = ?"""


def report(step: Step, reports: Sequence[Report]) -> None:
    known = entries.by_keys(step.connection, step.number, [each.key for each in reports])
    live = {key for key, entry in known.items() if entry.state != "dead"}
    progress = {each.key: each.progress for each in reports if each.progress and each.key in live}
    if progress:
        rows = [(step.number, key, value) for key, value in progress.items()]
        run_rows(step.connection, _TELL, rows)
        entries.flag(step.connection, step.number, progress, REPORTED)
    for each in reports:
        if each.lines and each.key in known:
            _write_lines(step, each.key, each.lines)
    if known:
        step.tell("reports", list(known))


def _write_lines(step: Step, key: JobKey, lines: Sequence[str]) -> None:
    opened = (step.number, key, len(lines), step.now_ms + LOG_TTL * 1000)
    [(log, following)] = step.connection.execute(_OPEN_LOG, opened).fetchall()
    first = following - len(lines)
    oldest = following - LOG_LINES
    rows = [(log, at, line) for at, line in enumerate(lines, start=first) if at >= oldest]
    run_rows(step.connection, _WRITE, rows)
    if oldest > 0:
        step.connection.execute(_CUT, (log, oldest))


def log(
    connection: sqlite3.Connection,
    *,
    namespace: str,
    queue: str,
    key: JobKey,
    start: int,
    now_ms: int,
) -> LogPage:
    """The lines from number `start` on, as far as they are kept."""
    number = queue_id(connection, namespace, queue)
    found = connection.execute(_LOG, (number, key, now_ms)).fetchone()
    if found is None:
        return LogPage([], start)
    log, following = found
    lines = [line for _, line in connection.execute(_LINES, (log, start))]
    return LogPage(lines, max(start, following))


def once_set(step: Step, key: JobKey, name: str, value: bytes) -> None:
    entry = entries.by_keys(step.connection, step.number, [key]).get(key)
    if entry is not None and entry.state != "dead":
        step.connection.execute(_MARK_ONCE, (step.number, key, name, value))
        entries.flag(step.connection, step.number, [key], MARKED)


def once_all(
    connection: sqlite3.Connection, *, namespace: str, queue: str, key: JobKey
) -> dict[str, bytes]:
    number = queue_id(connection, namespace, queue)
    return dict(connection.execute(_MARKS, (number, key)).fetchall())


def forget_progress(step: Step, keys: Sequence[JobKey]) -> None:
    run_rows(step.connection, _FORGET_PROGRESS, [(key,) for key in keys], step.number)


def forget_marks(step: Step, keys: Sequence[JobKey]) -> None:
    run_rows(step.connection, _FORGET_ONCE, [(key,) for key in keys], step.number)
