"""Deleting: what has expired, a bounded number at a time; dead jobs; whole queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.bounds import EVENTS_TTL
from headrace.core.job.state import State
from headrace.core.queue_names import group_source
from headrace.store.oddities import readable
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import MARKED, REPORTED
from headrace.store.sqlite.gates import flow_parts
from headrace.store.sqlite.inspection import progress_log
from headrace.store.sqlite.jobs import completion, history_writer
from headrace.store.sqlite.topics import stopped_keys

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change

_SWEPT_TOGETHER = 1000
_DAY_MS = 24 * 60 * 60 * 1000
_DAY_MINUTES = 24 * 60
_MINUTE_MS = 60_000
# A tick is fired at most once, even if schedulers are out of contact for this long.
_TICKS_KEPT_MS = 7 * _DAY_MS

_DROP_RESULTS = """
    DELETE FROM results WHERE id IN (
        SELECT id FROM results WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)"""
# A dead event with a place in a lane stops its key, until a person frees it.
_DROP_OLD_DEAD = """
    DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs WHERE queue = ? AND state = 'dead' AND time_ms < ? AND lane = ''
        ORDER BY time_ms LIMIT ?)
    RETURNING job_id, flags, CAST(flow AS TEXT)"""
_DROP_TOO_MANY_DEAD = """
    DELETE FROM jobs WHERE id IN (
        SELECT id FROM jobs WHERE queue = ? AND state = 'dead' AND lane = ''
        ORDER BY time_ms DESC LIMIT ? OFFSET ?)
    RETURNING job_id, flags, CAST(flow AS TEXT)"""
_OLD_LOGS = "SELECT id FROM logs WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?"
_DROP_TICKS = "DELETE FROM ticks WHERE queue = ? AND last_ms < ?"
_DROP_COUNTERS = "DELETE FROM counters WHERE queue = ? AND minute < ?"
_DROP_EXPIRED = (
    "DELETE FROM uniques WHERE until_ms <= ?",
    "DELETE FROM kv WHERE expires_ms <= ?",
    "DELETE FROM starts WHERE expires_ms <= ?",
    "DELETE FROM limits WHERE passed = 0 AND opens_ms IS NULL AND spent_until_ms <= ?",
)
_PURGE = """
    DELETE FROM jobs WHERE queue = ? AND job_id = ? AND state = 'dead'
    RETURNING CAST(flow AS TEXT)"""
# Ids that another program wrote: not blobs, so they are equal to no id of ours.
_ODD_KEYS = """
    SELECT CAST(job_id AS BLOB), id FROM jobs
    WHERE queue = ? AND state = 'dead' AND typeof(job_id) != 'blob' LIMIT 1000"""
_FORGET_RESULT = "DELETE FROM results WHERE queue = ? AND job_id = ?"
_DROP_LINES = "DELETE FROM lines WHERE log IN (SELECT id FROM logs WHERE queue = ?)"
_DROP = [
    f"DELETE FROM {table} WHERE queue = ?"
    for table in (
        "jobs", "results", "uniques", "ticks", "children", "joins", "parents", "limits", "starts",
        "gatherings",
        "flow_parts", "progress", "logs", "once", "facts", "counters", "history",
        "stopped_keys", "topic_groups",
    )
]  # fmt: skip
_DROP_NAMED = [
    f"DELETE FROM {table} WHERE namespace = ? AND queue = ?" for table in ("pauses", "reclaims")
]
_FORGET_LOOKS = "DELETE FROM reclaims WHERE namespace = ? AND queue = ?"
_DROP_LOG = [f"DELETE FROM {table} WHERE log = ?" for table in ("topic_events", "topics")]
_NAMES = "SELECT id, CAST(name AS BLOB) FROM queues WHERE namespace = ?"
_HELD = """
    SELECT (SELECT count(*) FROM jobs WHERE queue = :number)
        + (SELECT count(*) FROM topic_events WHERE log = :number)"""
# The latest row stays: the next one counts on from it.
_DROP_FACTS = """
    DELETE FROM facts WHERE queue = :queue AND first < (
        SELECT max(first) FROM facts WHERE queue = :queue) AND at_ms < :oldest_ms"""
_LAST_USED = """
    SELECT max(
        coalesce((SELECT max(at_ms) FROM facts WHERE queue = :number), 0),
        coalesce((SELECT max(last_ms) FROM ticks WHERE queue = :number), 0),
        coalesce((SELECT looked_ms FROM reclaims
            WHERE namespace = :namespace AND queue = :name), 0),
        coalesce((SELECT max(expires_ms) FROM results WHERE queue = :number), 0)),
        EXISTS (SELECT 1 FROM pauses WHERE namespace = :namespace AND queue = :name)"""
_GROUPS = "SELECT queue FROM topic_groups WHERE log = ?"
_FORGET = "DELETE FROM queues WHERE id = ?"


def sweep(change: Change) -> None:
    """Delete what has expired, and dead jobs that are too old or too many."""
    connection, now_ms = change.connection, change.now_ms
    drop_results(connection, now_ms, limit=_SWEPT_TOGETHER)
    _drop_dead(change)
    flow_parts.drop_expired(connection, now_ms)
    for drop in _DROP_EXPIRED:
        connection.execute(drop, (now_ms,))
    history_writer.drop_expired(change)
    _drop_logs(change)
    connection.execute(_DROP_TICKS, (change.number, now_ms - _TICKS_KEPT_MS))
    drop_counters(change)


def drop_counters(change: Change) -> None:
    oldest = change.now_ms // _MINUTE_MS - _DAY_MINUTES
    change.connection.execute(_DROP_COUNTERS, (change.number, oldest))


def drop_results(connection: sqlite3.Connection, now_ms: int, *, limit: int) -> None:
    connection.execute(_DROP_RESULTS, (now_ms, limit))


def _drop_dead(change: Change) -> None:
    bounds = change.history_rules.queues.of(change.queue).dead
    old = (change.number, change.now_ms - bounds.keep_ms, _SWEPT_TOGETHER)
    dropped = change.connection.execute(_DROP_OLD_DEAD, old).fetchall()
    too_many = (change.number, _SWEPT_TOGETHER, bounds.most)
    dropped += change.connection.execute(_DROP_TOO_MANY_DEAD, too_many).fetchall()
    progress_log.forget_progress(
        change, [job_id for job_id, flags, _ in dropped if flags & REPORTED]
    )
    progress_log.forget_marks(change, [job_id for job_id, flags, _ in dropped if flags & MARKED])
    flow_parts.leave(change, [(flow, State.DEAD) for _, _, flow in dropped])
    completion.forget_family(change, [job_id for job_id, _, _ in dropped])


def _drop_logs(change: Change) -> None:
    found = change.connection.execute(_OLD_LOGS, (change.now_ms, _SWEPT_TOGETHER)).fetchall()
    for (log,) in found:
        change.connection.execute("DELETE FROM lines WHERE log = ?", (log,))
        change.connection.execute("DELETE FROM logs WHERE id = ?", (log,))


def purge(change: Change, job_ids: Sequence[JobId]) -> list[bool]:
    """Delete dead jobs; returns for each id whether it was of one."""
    purged = []
    for job_id in job_ids:
        gone = change.connection.execute(_PURGE, (change.number, job_id)).fetchall()
        if gone:
            flow_parts.leave(change, [(flow, State.DEAD) for (flow,) in gone])
            change.connection.execute(_FORGET_RESULT, (change.number, job_id))
        purged.append(bool(gone))
    if not all(purged):
        odd = dict(change.connection.execute(_ODD_KEYS, (change.number,)).fetchall())
        entries.delete(change.connection, [odd[job_id] for job_id in job_ids if job_id in odd])
        purged = [gone or job_id in odd for job_id, gone in zip(job_ids, purged, strict=True)]
    forgotten = [job_id for job_id, gone in zip(job_ids, purged, strict=True) if gone]
    progress_log.forget_progress(change, forgotten)
    progress_log.forget_marks(change, forgotten)
    completion.forget_family(change, forgotten)
    if group_source(change.queue):
        change.freed_lanes |= stopped_keys.forget(change, forgotten)
    return purged


def remove(
    change: Change, name: str, *, force: bool, unused_for: float | None = None
) -> int | None:
    """See `headrace.store.contract.Store.remove`."""
    found = change.connection.execute(_NAMES, (change.namespace,)).fetchall()
    number = next((id for id, raw in found if readable(raw) == name), None)
    if number is None:
        forget_looks(change)
        return None
    if unused_for is not None:
        _drop_old_facts(change, number)
    [(held,)] = change.connection.execute(_HELD, {"number": number}).fetchall()
    if held and not force:
        return int(held)
    if unused_for is not None and _is_used(change, number, unused_for):
        return -1
    groups = change.connection.execute(_GROUPS, (number,)).fetchall()
    completion.tell_those_left(change, number)
    for each in (*(group for (group,) in groups), number):
        drop_rows(change, each)
        change.connection.execute(_FORGET, (each,))
    for drop in _DROP_LOG:
        change.connection.execute(drop, (number,))
    change.number = number
    drop_control(change)
    return 0


def _drop_old_facts(change: Change, number: int) -> None:
    """Delete old events and counters of a queue that nobody sweeps any more."""
    oldest = {"queue": number, "oldest_ms": change.now_ms - EVENTS_TTL * 1000}
    change.connection.execute(_DROP_FACTS, oldest)
    minute = change.now_ms // _MINUTE_MS - _DAY_MINUTES
    change.connection.execute(_DROP_COUNTERS, (number, minute))


def _is_used(change: Change, number: int, unused_for: float) -> bool:
    """Whether the queue was used in the last `unused_for` seconds, or something is paused in it."""
    chosen = {"number": number, "namespace": change.namespace, "name": change.queue}
    [(last_ms, paused)] = change.connection.execute(_LAST_USED, chosen).fetchall()
    return bool(paused) or change.now_ms - last_ms < unused_for * 1000


def drop_rows(change: Change, number: int) -> bool:
    """Delete all rows of a queue; whether it was that of a group."""
    change.connection.execute(_DROP_LINES, (number,))
    for drop in _DROP:
        dropped = change.connection.execute(drop, (number,)).rowcount
    return dropped > 0


def forget_looks(change: Change) -> None:
    """Delete when a queue that does not exist was last reclaimed from: a worker may have read it
    after it was removed."""
    change.connection.execute(_FORGET_LOOKS, (change.namespace, change.queue))


def drop_control(change: Change) -> None:
    """Delete what is kept by the queue's name: its pauses, and when it was last reclaimed from."""
    for drop in _DROP_NAMED:
        change.connection.execute(drop, (change.namespace, change.queue))
    change.notify("control")
