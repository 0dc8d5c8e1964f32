"""Forgetting what need not be kept any longer, a bounded number at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import DEAD_KEPT_COUNT, DEAD_KEPT_DAYS
from headrace.store.sqlite import reporting
from headrace.store.sqlite.entries import MARKED

if TYPE_CHECKING:
    import sqlite3

    from headrace.store.sqlite.step import Step

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


def sweep(step: Step) -> None:
    """Drop what has expired, and dead jobs that are too old or too many."""
    connection, now_ms = step.connection, step.now_ms
    drop_results(connection, now_ms, limit=_SWEPT_TOGETHER)
    _drop_dead(step)
    for drop in _DROP_EXPIRED:
        connection.execute(drop, (now_ms,))
    _drop_logs(step)
    connection.execute(_DROP_TICKS, (step.number, now_ms - _TICKS_KEPT_MS))
    drop_counters(step)


def drop_counters(step: Step) -> None:
    oldest = step.now_ms // _MINUTE_MS - _DAY_MINUTES
    step.connection.execute(_DROP_COUNTERS, (step.number, oldest))


def drop_results(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> None:
    connection.execute(_DROP_RESULTS, (now_ms, limit))


def _drop_dead(step: Step) -> None:
    old = (step.number, step.now_ms - DEAD_KEPT_DAYS * _DAY_MS, _SWEPT_TOGETHER)
    dropped = step.connection.execute(_DROP_OLD_DEAD, old).fetchall()
    too_many = (step.number, _SWEPT_TOGETHER, DEAD_KEPT_COUNT)
    dropped += step.connection.execute(_DROP_TOO_MANY_DEAD, too_many).fetchall()
    reporting.forget_marks(step, [job_id for job_id, flags in dropped if flags & MARKED])


def _drop_logs(step: Step) -> None:
    found = step.connection.execute(_OLD_LOGS, (step.now_ms, _SWEPT_TOGETHER)).fetchall()
    for (log,) in found:
        step.connection.execute("DELETE FROM lines WHERE log = ?", (log,))
        step.connection.execute("DELETE FROM logs WHERE id = ?", (log,))
