"""Taking events from a log into the queue of a group, as many as are wanted there."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints
from headrace.core.job.parcel import Parcel
from headrace.store.sqlite.jobs import insert
from headrace.store.sqlite.jobs.constrained import append_constrained
from headrace.store.sqlite.topics import stopped_keys

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change

_Event = tuple["JobId", str, bytes, int]
"""Id, key as the name of a lane, envelope, and when it was added."""

_TOGETHER = 1000
# Limits the time for which one fetch blocks other writers.
_MOST_TAKEN = 5000
# Blocked events are in the way of others that could be handled: no more are taken above this.
_MOST_BLOCKED = 100_000
_SEEN_EVERY_MS = 10_000

_GROUP = """
    SELECT topic_groups.log, ordered, CAST(position AS INTEGER), CAST(first AS INTEGER),
        CAST(last AS INTEGER), CAST(seen_ms AS INTEGER)
    FROM topic_groups JOIN topics ON topics.log = topic_groups.log WHERE queue = ?"""
_ANYTHING = """
    SELECT 1 FROM queues
        JOIN topic_groups ON topic_groups.queue = queues.id
        JOIN topics ON topics.log = topic_groups.log
    WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names))
        AND (abs(:now_ms - seen_ms) >= :seen_every_ms OR position < last AND NOT EXISTS (
            SELECT 1 FROM pauses
            WHERE pauses.namespace = :namespace AND pauses.queue = queues.name AND task = ''))"""
_PAUSED = "SELECT 1 FROM pauses WHERE namespace = ? AND queue = ? AND task = ''"
_COUNT = """
    SELECT count(*) FROM (SELECT 1 FROM jobs WHERE queue = ? AND state = '{state}' LIMIT ?)"""
_WAITING, _BLOCKED = _COUNT.format(state="waiting"), _COUNT.format(state="blocked")
_SAW = "UPDATE topic_groups SET seen_ms = ? WHERE queue = ?"
_MOVE = "UPDATE topic_groups SET position = ? WHERE queue = ?"
_INTO_QUEUE = """
    INSERT INTO jobs (id, queue, job_id, state, position, time_ms, envelope)
    SELECT id + :shift, :queue, job_id, 'waiting', id + :shift, added_ms, envelope FROM topic_events
    WHERE id > :after AND id <= :upto ORDER BY id
    ON CONFLICT DO NOTHING"""
_DEAD_AMONG = """
    SELECT topic_events.job_id FROM topic_events
        CROSS JOIN jobs ON jobs.queue = :queue AND jobs.job_id = topic_events.job_id
    WHERE topic_events.id > :after AND topic_events.id <= :upto AND jobs.state = 'dead'
        AND EXISTS (SELECT 1 FROM jobs WHERE queue = :queue AND state = 'dead')
    ORDER BY topic_events.id"""
_EVENTS = """
    SELECT job_id, lane, envelope, added_ms FROM topic_events WHERE id > ? AND id <= ?
    ORDER BY id"""


class _Group(msgspec.Struct):
    log: int
    ordered: int
    position: int
    first: int
    last: int
    seen_ms: int


def nothing_to_draw(
    connection: sqlite3.Connection, namespace: str, *, queues: Sequence[str], now_ms: int
) -> bool:
    """Whether `draw` would do nothing for any of these groups."""
    names = msgspec.json.encode(queues).decode()
    asked = {
        "namespace": namespace,
        "names": names,
        "now_ms": now_ms,
        "seen_every_ms": _SEEN_EVERY_MS,
    }
    return connection.execute(_ANYTHING, asked).fetchone() is None


def draw(change: Change, wanted: int) -> None:
    """Take events from the log until `wanted` wait for a worker, if it has as many."""
    row = change.connection.execute(_GROUP, (change.number,)).fetchone()
    if row is None:
        return
    group = _Group(*row)
    if abs(change.now_ms - group.seen_ms) >= _SEEN_EVERY_MS:
        change.connection.execute(_SAW, (change.now_ms, change.number))
    if group.position < group.last and not _is_paused(change):
        at = _take(change, group, wanted)
        change.connection.execute(_MOVE, (at, change.number))


def _is_paused(change: Change) -> bool:
    paused = change.connection.execute(_PAUSED, (change.namespace, change.queue))
    return paused.fetchone() is not None


def _take(change: Change, group: _Group, wanted: int) -> int:
    """Take events until enough wait; returns the number of the last one."""
    # Events before `first` were dropped from the log.
    at = max(group.position, group.first - 1)
    room = min(group.last - at, _MOST_TAKEN)
    if group.ordered:
        room = min(room, _MOST_BLOCKED - _count(change, _BLOCKED, _MOST_BLOCKED))
    taken_at_most = at + _MOST_TAKEN
    page = 0
    while room > 0 and (lacking := wanted - _count(change, _WAITING, wanted)) > 0:
        # Larger pages each time: all events of a page may be blocked behind others of their keys.
        page = min(max(lacking, 2 * page), room, _TOGETHER)
        (_into_lanes if group.ordered else _into_queue)(change, at, at + page)
        at, room = at + page, room - page
    if at == taken_at_most:
        # Behind the blocked ones there may be more that can be handled.
        change.notify("ready")
    return at


def _count(change: Change, sql: str, most: int) -> int:
    [(count,)] = change.connection.execute(sql, (change.number, most)).fetchall()
    return count  # type: ignore[no-any-return]


def _into_queue(change: Change, after: int, upto: int) -> None:
    """Insert events as waiting. Those that the group has already are left as they are, but dead
    ones are replayed."""
    first = change.new_numbers(upto - after)
    rows = {"shift": first - after - 1, "queue": change.number, "after": after, "upto": upto}
    if change.connection.execute(_INTO_QUEUE, rows).rowcount < upto - after:
        insert.replay(change, _dead_among(change, after, upto))


def _dead_among(change: Change, after: int, upto: int) -> list[JobId]:
    """The events that are dead in the group's queue."""
    among = {"queue": change.number, "after": after, "upto": upto}
    found = change.connection.execute(_DEAD_AMONG, among)
    return [job_id for (job_id,) in found]


def _into_lanes(change: Change, after: int, upto: int) -> None:
    """As `_into_queue`, for an ordered group. Events of a failed key go dead, or stay dead, until
    the event comes again that failed the key."""
    events = change.connection.execute(_EVENTS, (after, upto)).fetchall()
    stopped = stopped_keys.among(change, {lane for _, lane, _, _ in events})
    stoppers = {event: key for key, (_, event) in stopped.items()}
    dead = set(_dead_among(change, after, upto))
    for (stops, is_dead), run in groupby(events, lambda e: (e[0] in stoppers, e[0] in dead)):
        some = list(run)
        if stops:
            for job_id, _, _, _ in some:
                stopped_keys.free(change, stoppers[job_id])
                del stopped[stoppers[job_id]]
        failed = {key for key, (state, _) in stopped.items() if state == "failed"}
        others = [event for event in some if event[1] not in failed]
        if is_dead:
            insert.replay(change, [job_id for job_id, _, _, _ in others])
        else:
            _append(change, others)
            stopped_keys.add_dead(change, [event[:3] for event in some if event[1] in failed])


def _append(change: Change, events: Sequence[_Event]) -> None:
    parcels = [
        Parcel(job_id, envelope, constraints=Constraints(lane=lane) if lane else NO_CONSTRAINTS)
        for job_id, lane, envelope, _ in events
    ]
    added = {job_id: added_ms for job_id, _, _, added_ms in events}
    # The log has recorded them already.
    facts, change.facts = change.facts, None
    append_constrained(change, parcels, may_exist=False, since=added)
    change.facts = facts
