"""Keys of ordered groups that are stopped, because one of their events went dead.

If later events should wait, the dead one keeps its place in the lane; if they should fail, they go
dead as they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.job.constraints import Constraints, encode_constraints
from headrace.core.job.state import Reason
from headrace.store.sqlite.entries import LADEN, MARKED, REPORTED, lane_gate
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.rows import queue_id, run_rows, select_rows
from headrace.store.topics import StoppedKey

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_FAILED = Reason.KEY_FAILED.value
_LOOKED_AT = 100_000
_STATES = {"block": "blocked", "fail_key": "failed"}

_POLICY = "SELECT on_failure FROM topic_groups WHERE queue = ? AND ordered"
_NOTE = "INSERT OR REPLACE INTO stopped_keys (queue, key, state, event, since_ms) VALUES {rows}"
_KEEP_PLACE = """
    WITH dead (id, lane) AS (VALUES {rows})
    UPDATE jobs SET lane = dead.lane FROM dead WHERE jobs.id = dead.id"""
_FAIL_BLOCKED = f"""
    UPDATE jobs SET state = 'dead', time_ms = ?, reason = '{_FAILED}', gate = '',
        flags = flags & {MARKED | REPORTED | LADEN}
    WHERE queue = ? AND gate = ? AND gate != ''
    RETURNING position, job_id, substr(envelope, 1, 1100)"""
_ADD_DEAD = f"""
    INSERT INTO jobs (id, queue, job_id, state, position, time_ms, reason, flags, constraints,
        envelope)
    SELECT column1, column2, column3, 'dead', 0, column4, '{_FAILED}', {LADEN}, column5, column6
    FROM (VALUES {{rows}}) WHERE true
    ON CONFLICT DO NOTHING RETURNING job_id"""
_AMONG = """
    WITH named (queue, key) AS (VALUES {rows})
    SELECT stopped.key, state, event FROM named JOIN stopped_keys AS stopped
        ON stopped.queue = named.queue AND stopped.key = named.key"""
_BY_EVENTS_AFTER = """
    SELECT stopped.key FROM stopped_keys AS stopped
        JOIN topic_events ON log = ? AND topic_events.job_id = event
    WHERE stopped.queue = ? AND topic_events.id > ?"""
_FORGET_EVENT = """
    DELETE FROM stopped_keys INDEXED BY stopped_keys_by_event
    WHERE queue = ? AND event = ? AND state = 'blocked' RETURNING key"""
_FORGET_KEY = "DELETE FROM stopped_keys WHERE queue = ? AND key = ? RETURNING event"
_GIVE_UP_PLACE = """
    UPDATE jobs SET lane = '' WHERE queue = ? AND job_id = ? AND state = 'dead'"""
_LIST = """
    SELECT key, state, event, since_ms FROM stopped_keys WHERE queue = ? ORDER BY key LIMIT ?"""
# Counting what waits behind each would take too long if there are many.
_KEYS_COUNTED = 1000
_BEHIND = """
    WITH stopped AS MATERIALIZED (
        SELECT key, since_ms FROM stopped_keys WHERE queue = :queue LIMIT :most)
    SELECT min(since_ms), sum((
        SELECT count(*) FROM jobs
        WHERE jobs.queue = :queue AND gate = :gate || key AND gate != ''))
    FROM stopped"""
_BLOCKED_AT = "SELECT count(*) FROM jobs WHERE queue = ? AND gate = ? AND gate != ''"
_BACKLOG = """
    SELECT lane, count(*) FROM topic_groups JOIN topic_events
        ON topic_events.id > position AND topic_events.id <= position + :looked_at
            AND +topic_events.log = topic_groups.log
    WHERE queue = :queue AND lane IN (SELECT key FROM stopped_keys WHERE queue = :queue)
    GROUP BY lane"""


def stop(change: Change, dead: Iterable[Entry]) -> None:
    """Stop the keys of events that just went dead, if the group wants that."""
    stopped = {entry.constraints.lane: entry for entry in dead if entry.constraints.lane}
    policy = change.connection.execute(_POLICY, (change.number,)).fetchone() if stopped else None
    state = _STATES.get(policy[0]) if policy else None
    if state is None:
        return
    rows = [(change.number, key, state, e.job_id, change.now_ms) for key, e in stopped.items()]
    run_rows(change.connection, _NOTE, rows)
    if state == "failed":
        for key in stopped:
            _fail_blocked(change, key)
        return
    places = [(entry.id, key) for key, entry in stopped.items()]
    run_rows(change.connection, _KEEP_PLACE, places)
    change.freed_lanes -= stopped.keys()


def _fail_blocked(change: Change, key: str) -> None:
    blocked = (change.now_ms, change.number, lane_gate(key))
    failed = change.connection.execute(_FAIL_BLOCKED, blocked).fetchall()
    for _, event, head in sorted(failed):
        _record(change, event, head, key)


def add_dead(change: Change, events: Sequence[tuple[JobId, str, bytes]]) -> None:
    """Insert events (id, key, envelope) as dead, because their key has failed."""
    if not events:
        return
    first = change.new_numbers(len(events))
    rows: list[tuple[Any, ...]] = [
        (
            id,
            change.number,
            event,
            change.now_ms,
            encode_constraints(Constraints(lane=key)),
            envelope,
        )
        for id, (event, key, envelope) in enumerate(events, start=first)
    ]
    added = {event for (event,) in select_rows(change.connection, _ADD_DEAD, rows)}
    for event, key, envelope in events:
        if event in added:
            _record(change, event, envelope, key)


def _record(change: Change, event: JobId, head: bytes, key: str) -> None:
    change.record_death(_FAILED, event, task_of(head), key.encode())


def among(change: Change, keys: Iterable[str]) -> dict[str, tuple[str, JobId]]:
    """The keys that are stopped, each with its state and the event that stopped it."""
    rows = [(change.number, key) for key in keys if key]
    found = select_rows(change.connection, _AMONG, rows)
    return {key: (state, event) for key, state, event in found}


def forget(change: Change, events: Iterable[JobId]) -> set[str]:
    """Delete the blocks of events that are no longer dead; returns the keys that they blocked."""
    freed: set[str] = set()
    for event in events:
        freed.update(
            key for (key,) in change.connection.execute(_FORGET_EVENT, (change.number, event))
        )
    return freed


def free(change: Change, key: str) -> bool:
    """Let a key go on; False if it was not stopped."""
    found = change.connection.execute(_FORGET_KEY, (change.number, key)).fetchall()
    for (event,) in found:
        change.connection.execute(_GIVE_UP_PLACE, (change.number, event))
        change.freed_lanes.add(key)
    return bool(found)


def free_after(change: Change, log: int, place: int) -> None:
    """Let keys go on whose dead event is in the log after this place, and so comes again."""
    for (key,) in change.connection.execute(
        _BY_EVENTS_AFTER, (log, change.number, place)
    ).fetchall():
        free(change, key)


def stopped_keys(
    connection: sqlite3.Connection, namespace: str, *, queue: str, limit: int
) -> list[StoppedKey]:
    """Keys by name. Counts only events among the next `_LOOKED_AT` of the log."""
    number = queue_id(connection, namespace, queue)
    found = connection.execute(_LIST, (number, limit)).fetchall()
    looked = {"queue": number, "looked_at": _LOOKED_AT}
    backlog = dict(connection.execute(_BACKLOG, looked).fetchall()) if found else {}
    return [
        StoppedKey(
            key,
            state,
            event,
            since_ms,
            _count_blocked(connection, number, key) + backlog.get(key, 0)
            if state == "blocked"
            else 0,
        )
        for key, state, event, since_ms in found
    ]


def behind_stopped(connection: sqlite3.Connection, queue: int | None) -> tuple[int, int | None]:
    """How many events of the group's queue wait behind stopped keys, and when the first of those
    was stopped; nothing for None."""
    if queue is None:
        return 0, None
    asked = {"queue": queue, "most": _KEYS_COUNTED, "gate": lane_gate("")}
    [(since_ms, waiting)] = connection.execute(_BEHIND, asked).fetchall()
    return waiting or 0, since_ms


def _count_blocked(connection: sqlite3.Connection, queue: int | None, key: str) -> int:
    [(waiting,)] = connection.execute(_BLOCKED_AT, (queue, lane_gate(key))).fetchall()
    return waiting  # type: ignore[no-any-return]
