"""What running jobs report: progress, log lines, and what they have done once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import LOG_TTL
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import MARKED, REPORTED
from headrace.store.sqlite.rows import queue_id, run_rows
from headrace.store.values import LogPage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.values import Report

_WRITE_PROGRESS = "INSERT OR REPLACE INTO progress (queue, job_id, value) VALUES {rows}"
_FORGET = "DELETE FROM {table} WHERE job_id IN (VALUES {{rows}}) AND queue = ?"
_FORGET_PROGRESS = _FORGET.format(table="progress")
_FORGET_ONCE = _FORGET.format(table="once")
_OPEN_LOG = """
    INSERT INTO logs (queue, job_id, following, expires_ms) VALUES (?, ?, ?, ?)
    ON CONFLICT (queue, job_id) DO UPDATE
    SET following = following + excluded.following, expires_ms = excluded.expires_ms
    RETURNING id, following"""
_FORGET_LOG = "DELETE FROM logs WHERE queue = ? AND job_id = ?"
_FORGET_LINES = """
    DELETE FROM lines WHERE log IN (SELECT id FROM logs WHERE queue = ? AND job_id = ?)"""
_WRITE = "INSERT INTO lines (log, number, line) VALUES {rows}"
_CUT = "DELETE FROM lines WHERE log = ? AND number < ?"
_LOG = """
    SELECT id, following FROM logs WHERE queue = ? AND job_id = ? AND expires_ms > ?"""
_LINES = (
    "SELECT number, CAST(line AS TEXT) FROM lines WHERE log = ? AND number >= ? ORDER BY number"
)
_MARK_ONCE = "INSERT OR REPLACE INTO once (queue, job_id, name, value) VALUES (?, ?, ?, ?)"
_MARKS = """
    SELECT CAST(name AS TEXT), CAST(value AS BLOB) FROM once WHERE queue = ? AND job_id = ?"""


def report(change: Change, reports: Sequence[Report]) -> None:
    known = entries.by_job_ids(change.connection, change.number, [each.job_id for each in reports])
    live = {job_id for job_id, entry in known.items() if entry.state != "dead"}
    progress = {
        each.job_id: each.progress for each in reports if each.progress and each.job_id in live
    }
    if progress:
        rows = [(change.number, job_id, value) for job_id, value in progress.items()]
        run_rows(change.connection, _WRITE_PROGRESS, rows)
        entries.flag(change.connection, change.number, progress, REPORTED)
    for each in reports:
        if each.lines and each.job_id in known:
            _write_lines(change, each.job_id, each.lines)
    if known:
        change.notify("reports", list(known))


def _write_lines(change: Change, job_id: JobId, lines: Sequence[str]) -> None:
    opened = (change.number, job_id, len(lines), change.now_ms + LOG_TTL * 1000)
    [(log, following)] = change.connection.execute(_OPEN_LOG, opened).fetchall()
    first = following - len(lines)
    oldest = following - change.history_rules.queues.of(change.queue).log
    rows = [(log, at, line) for at, line in enumerate(lines, start=first) if at >= oldest]
    run_rows(change.connection, _WRITE, rows)
    if oldest > 0:
        change.connection.execute(_CUT, (log, oldest))


def log(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queue: str,
    job_id: JobId,
    start: int,
    now_ms: int,
) -> LogPage:
    """The log from line number `start` on, as far as it is kept."""
    number = queue_id(connection, namespace, queue)
    found = connection.execute(_LOG, (number, job_id, now_ms)).fetchone()
    if found is None:
        return LogPage([], start)
    log, following = found
    lines = [line for _, line in connection.execute(_LINES, (log, start))]
    return LogPage(lines, max(start, following))


def once_set(change: Change, job_id: JobId, name: str, value: bytes) -> None:
    entry = entries.by_job_ids(change.connection, change.number, [job_id]).get(job_id)
    if entry is not None and entry.state != "dead":
        change.connection.execute(_MARK_ONCE, (change.number, job_id, name, value))
        entries.flag(change.connection, change.number, [job_id], MARKED)


def once_all(
    connection: sqlite3.Connection, namespace: str, *, queue: str, job_id: JobId
) -> dict[str, bytes]:
    number = queue_id(connection, namespace, queue)
    return dict(connection.execute(_MARKS, (number, job_id)).fetchall())


def forget_progress(change: Change, job_ids: Sequence[JobId]) -> None:
    run_rows(change.connection, _FORGET_PROGRESS, [(job_id,) for job_id in job_ids], change.number)


def forget_logs(change: Change, job_ids: Sequence[JobId]) -> None:
    """Delete the logs of these jobs."""
    for job_id in job_ids:
        change.connection.execute(_FORGET_LINES, (change.number, job_id))
        change.connection.execute(_FORGET_LOG, (change.number, job_id))


def forget_marks(change: Change, job_ids: Sequence[JobId]) -> None:
    run_rows(change.connection, _FORGET_ONCE, [(job_id,) for job_id in job_ids], change.number)
