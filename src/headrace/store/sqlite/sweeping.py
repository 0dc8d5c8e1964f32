"""Forgetting what need not be kept any longer, a bounded number at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.limits import DEAD_KEPT_COUNT, DEAD_KEPT_DAYS

if TYPE_CHECKING:
    import sqlite3

_SWEPT_TOGETHER = 1000
_DAY_MS = 24 * 60 * 60 * 1000

_DROP_RESULTS = """
    DELETE FROM results WHERE id IN (
        SELECT id FROM results WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)"""
_DROP_OLD_DEAD = """
    DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs WHERE queue = ? AND state = 'dead' AND time_ms < ?
        ORDER BY time_ms LIMIT ?)"""
_DROP_TOO_MANY_DEAD = """
    DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs WHERE queue = ? AND state = 'dead'
        ORDER BY time_ms DESC LIMIT ? OFFSET ?)"""


def sweep(connection: sqlite3.Connection, queue: int, now_ms: int) -> None:
    """Drop expired results, and dead jobs that are too old or too many."""
    drop_results(connection, now_ms, limit=_SWEPT_TOGETHER)
    oldest_ms = now_ms - DEAD_KEPT_DAYS * _DAY_MS
    connection.execute(_DROP_OLD_DEAD, (queue, oldest_ms, _SWEPT_TOGETHER))
    connection.execute(_DROP_TOO_MANY_DEAD, (queue, _SWEPT_TOGETHER, DEAD_KEPT_COUNT))


def drop_results(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> None:
    connection.execute(_DROP_RESULTS, (now_ms, limit))
