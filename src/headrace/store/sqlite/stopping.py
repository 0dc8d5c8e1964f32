"""Keys of ordered groups that an event has brought to a stop, by going dead.

If the group wants later events to wait, the dead one keeps its place in the lane; if it wants them
to fail, they go dead as they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.job.constraints import Constraints, encode_constraints
from headrace.core.job.state import Reason
from headrace.store.sqlite.entries import LADEN, MARKED, lane_gate
from headrace.store.sqlite.facts import task_of
from headrace.store.sqlite.rows import queue_id, run_rows, select_rows
from headrace.store.topics import StoppedKey

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.entries import Entry
    from headrace.store.sqlite.step import Step

_FAILED = Reason.KEY_FAILED.value
_LOOKED_AT = 100_000
_STATES = {"block": "blocked", "fail_key": "failed"}

_POLICY = "SELECT on_failure FROM topic_groups WHERE queue = ? AND ordered"
_NOTE = "INSERT OR REPLACE INTO stopped_keys (queue, key, state, event, since_ms) VALUES {rows}"
_KEEP_PLACE = """
    WITH dead (id, lane) AS (VALUES {rows})
    UPDATE jobs SET lane = dead.lane FROM dead WHERE jobs.id = dead.id"""
_BURY_LINE = f"""
    UPDATE jobs SET state = 'dead', time_ms = ?, reason = '{_FAILED}', gate = '',
        flags = flags & {MARKED | LADEN}
    WHERE queue = ? AND gate = ? AND gate != ''
    RETURNING position, job_id, substr(envelope, 1, 1100)"""
_BURY_NEW = f"""
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
_IN_LINE = "SELECT count(*) FROM jobs WHERE queue = ? AND gate = ? AND gate != ''"
_UNTAKEN = """
    SELECT lane, count(*) FROM topic_groups JOIN topic_events
        ON topic_events.id > position AND topic_events.id <= position + :looked_at
            AND +topic_events.log = topic_groups.log
    WHERE queue = :queue AND lane IN (SELECT key FROM stopped_keys WHERE queue = :queue)
    GROUP BY lane"""


def stop(step: Step, dead: Iterable[Entry]) -> None:
    """Do with the keys of events that just went dead what their group wants."""
    stopped = {entry.constraints.lane: entry for entry in dead if entry.constraints.lane}
    policy = step.connection.execute(_POLICY, (step.number,)).fetchone() if stopped else None
    state = _STATES.get(policy[0]) if policy else None
    if state is None:
        return
    rows = [(step.number, key, state, e.job_id, step.now_ms) for key, e in stopped.items()]
    run_rows(step.connection, _NOTE, rows)
    if state == "failed":
        for key in stopped:
            _bury_line(step, key)
        return
    places = [(entry.id, key) for key, entry in stopped.items()]
    run_rows(step.connection, _KEEP_PLACE, places)
    step.freed_lanes -= stopped.keys()


def _bury_line(step: Step, key: str) -> None:
    line = (step.now_ms, step.number, lane_gate(key))
    buried = step.connection.execute(_BURY_LINE, line).fetchall()
    for _, event, head in sorted(buried):
        _record(step, event, head)


def bury(step: Step, events: Sequence[tuple[JobId, str, bytes]]) -> None:
    """Have new events go dead at once, because their key has failed: id, key and envelope."""
    if not events:
        return
    first = step.new_numbers(len(events))
    rows: list[tuple[Any, ...]] = [
        (id, step.number, event, step.now_ms, encode_constraints(Constraints(lane=key)), envelope)
        for id, (event, key, envelope) in enumerate(events, start=first)
    ]
    buried = {event for (event,) in select_rows(step.connection, _BURY_NEW, rows)}
    for event, _, envelope in events:
        if event in buried:
            _record(step, event, envelope)


def _record(step: Step, event: JobId, head: bytes) -> None:
    step.record("dead", event, task_of(head), 0, 0, 0, _FAILED)


def among(step: Step, keys: Iterable[str]) -> dict[str, tuple[str, JobId]]:
    """Those of these keys that are stopped: how, and by which event."""
    rows = [(step.number, key) for key in keys if key]
    found = select_rows(step.connection, _AMONG, rows)
    return {key: (state, event) for key, state, event in found}


def forget(step: Step, events: Iterable[JobId]) -> set[str]:
    """Forget that dead events block their keys, because they are dead no more: those keys."""
    freed: set[str] = set()
    for event in events:
        freed.update(key for (key,) in step.connection.execute(_FORGET_EVENT, (step.number, event)))
    return freed


def free(step: Step, key: str) -> bool:
    """Let a key go on; False if it was not stopped."""
    found = step.connection.execute(_FORGET_KEY, (step.number, key)).fetchall()
    for (event,) in found:
        step.connection.execute(_GIVE_UP_PLACE, (step.number, event))
        step.freed_lanes.add(key)
    return bool(found)


def free_after(step: Step, log: int, place: int) -> None:
    """Let keys go on whose event comes again, because the log has it after this place."""
    for (key,) in step.connection.execute(_BY_EVENTS_AFTER, (log, step.number, place)).fetchall():
        free(step, key)


def stopped_keys(
    connection: sqlite3.Connection, *, namespace: str, queue: str, limit: int
) -> list[StoppedKey]:
    """Keys by name. Of those that wait in the log, only so many are looked at."""
    number = queue_id(connection, namespace, queue)
    found = connection.execute(_LIST, (number, limit)).fetchall()
    looked = {"queue": number, "looked_at": _LOOKED_AT}
    untaken = dict(connection.execute(_UNTAKEN, looked).fetchall()) if found else {}
    return [
        StoppedKey(
            key,
            state,
            event,
            since_ms,
            _in_line(connection, number, key) + untaken.get(key, 0) if state == "blocked" else 0,
        )
        for key, state, event, since_ms in found
    ]


def _in_line(connection: sqlite3.Connection, queue: int | None, key: str) -> int:
    [(waiting,)] = connection.execute(_IN_LINE, (queue, lane_gate(key))).fetchall()
    return waiting  # type: ignore[no-any-return]
