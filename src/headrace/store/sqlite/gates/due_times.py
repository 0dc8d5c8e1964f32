"""Scheduled jobs: when they are due, and promoting those that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.contract import Promotion
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import ATTACHED
from headrace.store.sqlite.gates import accounts, batches, limits, routing, uniques
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.rows import bounded_ms, queue_id

if TYPE_CHECKING:
    import sqlite3

    from headrace.store.sqlite.change import Change

_PROMOTED_TOGETHER = 1000

_PROMOTE = """
    UPDATE jobs SET state = 'waiting', position = :before + due.place, time_ms = :now_ms
    FROM (SELECT id, row_number() OVER (ORDER BY time_ms, id) AS place FROM jobs
          WHERE queue = :queue AND state = 'scheduled' AND time_ms <= :now_ms
          ORDER BY time_ms, id LIMIT :limit) AS due
    WHERE jobs.id = due.id"""
_RETURNING = " RETURNING jobs.position, jobs.job_id, substr(jobs.envelope, 1, 1100)"
_MORE_TO_DO = f"""
    SELECT max(flags & {ATTACHED}) FROM (
        SELECT flags FROM jobs WHERE queue = ? AND state = 'scheduled' AND time_ms <= ?
        ORDER BY time_ms, id LIMIT ?)"""
_NEXT_DUE = "SELECT min(time_ms) FROM jobs WHERE queue = ? AND state = 'scheduled'"


def due_after(now_ms: int, delay_ms: int) -> int:
    """The time after a delay, plus 1: `now_ms` has lost its fraction, and no job may start
    early."""
    return bounded_ms(now_ms + delay_ms + 1)


def due_time(now_ms: int, delay_ms: int | None, at_ms: int | None) -> int:
    """When a job is due; 0 for now."""
    due = due_after(now_ms, delay_ms) if delay_ms else at_ms
    return 0 if due is None or due <= now_ms else bounded_ms(due)


def notify_due(change: Change, due: int, earliest: int | None) -> None:
    """Notify promoters, which sleep until the `earliest` due time, of one before it."""
    if earliest is None or due < earliest:
        change.notify("due")


def next_due(connection: sqlite3.Connection, queue: int) -> int | None:
    """When the first scheduled job is due."""
    [(due,)] = connection.execute(_NEXT_DUE, (queue,)).fetchall()
    return due  # type: ignore[no-any-return]


def promote(change: Change) -> Promotion:
    """Let due jobs go on, the earliest first, jobs at limits with room again, and batches."""
    if not change.number:
        return Promotion(0, None)
    moved = _promote_due(change)
    opened = limits.open_gates(change, _PROMOTED_TOGETHER)
    if opened:
        for place, entry in enumerate(opened, start=change.new_numbers(len(opened))):
            entry.position = place
        routing.pass_gates(change, [entry for entry in opened if entry.constraints.task_lane])
        entries.save(change.connection, opened)
        routing.notify_ready(change, opened)
    accounts.close_accounts(change)
    whole = batches.open_gates(change, _PROMOTED_TOGETHER)
    routing.notify_ready(change, whole)
    moved += len(opened) + len(whole) + routing.release_batches(change)
    return promotion(moved, _next(change.connection, change.number), change.now_ms)


def _promote_due(change: Change) -> int:
    chosen = (change.number, change.now_ms, _PROMOTED_TOGETHER)
    [(flags,)] = change.connection.execute(_MORE_TO_DO, chosen).fetchall()
    if flags is None:
        return 0
    if flags:
        due = entries.due(change.connection, *chosen)
        uniques.free(change, [entry for entry in due if entry.constraints.debounced])
        routing.go_on(change, due)
        return len(due)
    first = change.new_numbers(_PROMOTED_TOGETHER)
    change.notify("ready")
    moved = {
        "before": first - 1,
        "queue": change.number,
        "now_ms": change.now_ms,
        "limit": _PROMOTED_TOGETHER,
    }
    if change.facts is None:
        return change.connection.execute(_PROMOTE, moved).rowcount
    ready = change.connection.execute(_PROMOTE + _RETURNING, moved).fetchall()
    change.facts += [("ready", job_id, task_of(head)) for _, job_id, head in sorted(ready)]
    return len(ready)


def nothing_due(
    connection: sqlite3.Connection, namespace: str, *, queue: str, now_ms: int
) -> Promotion | None:
    """The answer of `promote` if it has nothing to do; None if it has."""
    number = queue_id(connection, namespace, queue)
    due = None if number is None else _next(connection, number)
    return None if due is not None and due <= now_ms else promotion(0, due, now_ms)


def _next(connection: sqlite3.Connection, queue: int) -> int | None:
    moments = (
        next_due(connection, queue),
        accounts.next_opening(connection, queue),
        batches.next_opening(connection, queue),
    )
    return min((moment for moment in moments if moment is not None), default=None)


def promotion(moved: int, due: int | None, now_ms: int) -> Promotion:
    """`moved` jobs moved, and the next is due at `due`."""
    if due is None:
        return Promotion(moved, None)
    return Promotion(moved, max(0, due - now_ms) / 1000, more=due <= now_ms)
