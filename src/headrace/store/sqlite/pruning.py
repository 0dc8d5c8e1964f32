"""Forgetting what need not be kept any longer, a bounded number at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import DEAD_KEPT_COUNT, DEAD_KEPT_DAYS
from headrace.store.sqlite import progress_log
from headrace.store.sqlite.entries import MARKED

if TYPE_CHECKING:
    import sqlite3

    from headrace.store.sqlite.change import Change

_SWEPT_TOGETHER = 1000
_DAY_MS = 24 * 60 * 60 * 1000
_DAY_MINUTES = 24 * 60
_MINUTE_MS = 60_000
# A tick is fired at most once even if those who fire it do not hear of each other for so long.
_TICKS_KEPT_MS = 7 * _DAY_MS

_DROP_RESULTS = """
    DELETE FROM results WHERE id IN (
        SELECT id FROM results WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)"""
# A dead event that has a place in a lane keeps its key from going on, which is for people to end.
_DROP_OLD_DEAD = """
    DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs WHERE queue = ? AND state = 'dead' AND time_ms < ? AND lane = ''
        ORDER BY time_ms LIMIT ?)
    RETURNING job_id, flags"""
_DROP_TOO_MANY_DEAD = """
    DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs WHERE queue = ? AND state = 'dead' AND lane = ''
        ORDER BY time_ms DESC LIMIT ? OFFSET ?)
    RETURNING job_id, flags"""
_OLD_LOGS = "SELECT id FROM logs WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?"
_DROP_TICKS = "DELETE FROM ticks WHERE queue = ? AND last_ms < ?"
_DROP_COUNTERS = "DELETE FROM counters WHERE queue = ? AND minute < ?"
_DROP_EXPIRED = (
    "DELETE FROM uniques WHERE until_ms <= ?",
    "DELETE FROM kv WHERE expires_ms <= ?",
    "DELETE FROM starts WHERE expires_ms <= ?",
    "DELETE FROM limits WHERE passed = 0 AND opens_ms IS NULL AND spent_until_ms <= ?",
)


def sweep(change: Change) -> None:
    """Drop what has expired, and dead jobs that are too old or too many."""
    connection, now_ms = change.connection, change.now_ms
    drop_results(connection, now_ms, limit=_SWEPT_TOGETHER)
    _drop_dead(change)
    for drop in _DROP_EXPIRED:
        connection.execute(drop, (now_ms,))
    _drop_logs(change)
    connection.execute(_DROP_TICKS, (change.number, now_ms - _TICKS_KEPT_MS))
    drop_counters(change)


def drop_counters(change: Change) -> None:
    oldest = change.now_ms // _MINUTE_MS - _DAY_MINUTES
    change.connection.execute(_DROP_COUNTERS, (change.number, oldest))


def drop_results(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> None:
    connection.execute(_DROP_RESULTS, (now_ms, limit))


def _drop_dead(change: Change) -> None:
    old = (change.number, change.now_ms - DEAD_KEPT_DAYS * _DAY_MS, _SWEPT_TOGETHER)
    dropped = change.connection.execute(_DROP_OLD_DEAD, old).fetchall()
    too_many = (change.number, _SWEPT_TOGETHER, DEAD_KEPT_COUNT)
    dropped += change.connection.execute(_DROP_TOO_MANY_DEAD, too_many).fetchall()
    progress_log.forget_marks(change, [job_id for job_id, flags in dropped if flags & MARKED])


def _drop_logs(change: Change) -> None:
    found = change.connection.execute(_OLD_LOGS, (change.now_ms, _SWEPT_TOGETHER)).fetchall()
    for (log,) in found:
        change.connection.execute("DELETE FROM lines WHERE log = ?", (log,))
        change.connection.execute("DELETE FROM logs WHERE id = ?", (log,))
