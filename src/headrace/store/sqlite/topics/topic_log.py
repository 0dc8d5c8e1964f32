"""The logs of topics: events, and places between them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from headrace.core.job.ids import to_text
from headrace.errors import EventNotFound
from headrace.store.sqlite.entries import json_of
from headrace.store.sqlite.jobs import pruning
from headrace.store.sqlite.rows import numbers_in
from headrace.store.topics import LoggedEvent, Trimmed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.store.sqlite.change import Change
    from headrace.store.topics import Position

_TRIMMED_TOGETHER = 1000
# How many event numbers each log has, beginning at a multiple of this.
_SPAN = 2**40

_FIND = """
    SELECT topics.log, first, last, last_ms FROM topics JOIN queues ON queues.id = topics.log
    WHERE namespace = ? AND name = ?"""
_LENGTHS = """
    SELECT name, last - first + 1 FROM topics JOIN queues ON queues.id = topics.log
    WHERE namespace = ? AND name IN (SELECT value FROM json_each(?))"""
_MAKE = """
    INSERT INTO topics (log, first, last, last_ms) VALUES (:log, :log * :span + 1, :log * :span, 0)
    RETURNING *"""
_SAVE = "UPDATE topics SET first = ?, last = ?, last_ms = ? WHERE log = ?"
_NAMES = """
    SELECT name FROM topics JOIN queues ON queues.id = topics.log WHERE namespace = ?
    ORDER BY name"""
_AT = "SELECT id FROM topic_events WHERE log = ? AND job_id = ?"
_ADDED = "SELECT added_ms FROM topic_events WHERE id = ?"
_READ = """
    SELECT id, CAST(job_id AS BLOB), CAST(added_ms AS INTEGER), CAST(envelope AS BLOB)
    FROM topic_events WHERE id > ? AND id <= ?
    ORDER BY id LIMIT ?"""
_CUT = "DELETE FROM topic_events WHERE id >= ? AND id <= ?"
_TAKEN = "SELECT min(position) FROM topic_groups WHERE log = ? AND seen_ms > ?"
_ANY = "SELECT 1 FROM topic_groups WHERE log = ? AND seen_ms > ? LIMIT 1"
# Events that failed once, and those blocked behind them, are in the group's queue for good and do
# not need the log.
_FIRST_HELD = """
    SELECT min(topic_events.id) FROM topic_events
        CROSS JOIN topic_groups ON topic_groups.log = topic_events.log AND seen_ms > ?
        CROSS JOIN jobs ON jobs.queue = topic_groups.queue AND jobs.job_id = topic_events.job_id
            AND state IN ('waiting', 'running')
    WHERE topic_events.id >= ? AND topic_events.id <= ?"""
_GONE = """
    SELECT name FROM topic_groups JOIN queues ON queues.id = topic_groups.queue
    WHERE log = ? AND seen_ms <= ? ORDER BY name"""


class Log(msgspec.Struct):
    number: int
    """The number of its queue."""
    first: int
    """Number of the oldest event; `last` + 1 if there is none."""
    last: int
    last_ms: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def find(connection: sqlite3.Connection, namespace: str, *, log: str) -> Log | None:
    row = connection.execute(_FIND, (namespace, log)).fetchone()
    return Log(*row) if row else None


def get_or_create(change: Change) -> Log:
    """The log of this name; a new one if there was none."""
    log = find(change.connection, namespace=change.namespace, log=change.queue)
    if log is None:
        values = {"log": change.get_or_create_number(), "span": _SPAN}
        [row] = change.connection.execute(_MAKE, values).fetchall()
        log = Log(*row)
    change.number = log.number
    return log


def save(connection: sqlite3.Connection, log: Log) -> None:
    connection.execute(_SAVE, (log.first, log.last, log.last_ms, log.number))


def names(connection: sqlite3.Connection, namespace: str) -> list[str]:
    return [name for (name,) in connection.execute(_NAMES, (namespace,))]


def lengths(
    connection: sqlite3.Connection, namespace: str, *, logs: Sequence[str]
) -> dict[str, int]:
    found = dict(connection.execute(_LENGTHS, (namespace, json_of(logs))).fetchall())
    return {log: found.get(log, 0) for log in logs}


def before(connection: sqlite3.Connection, log: Log, name: str, place: Position) -> int:
    """The number of the last event before this place."""
    if place.kind == "new":
        return log.last
    if place.kind == "start":
        return log.first - 1
    if place.kind == "time":
        return _before_time(connection, log, place.at_ms)
    found = connection.execute(_AT, (log.number, place.event)).fetchone()
    if found is None:
        raise EventNotFound(name, to_text(place.event))
    at: int = found[0]
    return at - 1


def _before_time(connection: sqlite3.Connection, log: Log, at_ms: int) -> int:
    """The number of the last event that was added before this time."""

    def added_ms(number: int) -> int:
        [(added,)] = connection.execute(_ADDED, (number,)).fetchall()
        return added  # type: ignore[no-any-return]

    numbers = range(log.first, log.last + 1)
    return log.first + bisect_left(numbers, at_ms, key=added_ms) - 1


def position(connection: sqlite3.Connection, namespace: str, *, log: str, place: Position) -> str:
    found = find(connection, namespace=namespace, log=log)
    if found is not None:
        return str(before(connection, found, log, place))
    if place.kind == "event":
        raise EventNotFound(log, to_text(place.event))
    return "0"


def read(
    connection: sqlite3.Connection, namespace: str, *, log: str, after: str, limit: int
) -> list[LoggedEvent]:
    [start] = numbers_in(after, 1, "events of a topic") if after else [0]
    found = find(connection, namespace=namespace, log=log)
    if found is None:
        return []
    rows = connection.execute(_READ, (max(start, found.first - 1), found.last, limit))
    return [LoggedEvent(job_id, added, envelope, str(id)) for id, job_id, added, envelope in rows]


def has_groups(connection: sqlite3.Connection, log: Log, seen_since_ms: int) -> bool:
    """Whether a group that was seen since then needs the log."""
    return connection.execute(_ANY, (log.number, seen_since_ms)).fetchone() is not None


def settled(connection: sqlite3.Connection, log: Log, upto: int, seen_since_ms: int = -1) -> int:
    """The last event, at most `upto`, up to which all groups seen since have settled every
    event."""
    [(taken,)] = connection.execute(_TAKEN, (log.number, seen_since_ms)).fetchall()
    if taken is None:
        return upto
    upto = max(log.first - 1, min(upto, taken))
    chosen = (seen_since_ms, log.first, upto)
    [(held,)] = connection.execute(_FIRST_HELD, chosen).fetchall()
    return upto if held is None else held - 1


def cut(connection: sqlite3.Connection, log: Log, upto: int) -> int:
    """Delete the oldest events, up to this one; returns how many."""
    if upto < log.first:
        return 0
    connection.execute(_CUT, (log.first, upto))
    removed = upto - log.first + 1
    log.first = upto + 1
    save(connection, log)
    return removed


def trim(change: Change, *, retention_ms: int, gone_after_ms: int) -> Trimmed:
    """Delete a page of events that are old enough and settled by all groups that are not gone."""
    connection, now_ms = change.connection, change.now_ms
    log = find(connection, namespace=change.namespace, log=change.queue)
    if log is None:
        return Trimmed()
    upto = _removable(connection, log, now_ms - retention_ms, now_ms - gone_after_ms)
    removed = cut(connection, log, upto)
    # Other queues are swept at `reclaim`, which logs do not have.
    pruning.drop_counters(change)
    gone = _gone(connection, log, now_ms - gone_after_ms)
    return Trimmed(removed, removed == _TRIMMED_TOGETHER, gone)


def nothing_to_trim(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    log: str,
    now_ms: int,
    retention_ms: int,
    gone_after_ms: int,
) -> Trimmed | None:
    """The answer of `trim` if it has nothing to do; None if it has."""
    found = find(connection, namespace=namespace, log=log)
    if found is None:
        return Trimmed()
    upto = _removable(connection, found, now_ms - retention_ms, now_ms - gone_after_ms)
    if upto >= found.first:
        return None
    return Trimmed(gone=_gone(connection, found, now_ms - gone_after_ms))


def _removable(connection: sqlite3.Connection, log: Log, old_ms: int, gone_ms: int) -> int:
    old = _before_time(connection, log, old_ms + 1)
    page = min(old, log.first + _TRIMMED_TOGETHER - 1)
    return settled(connection, log, page, seen_since_ms=gone_ms)


def _gone(connection: sqlite3.Connection, log: Log, gone_ms: int) -> tuple[str, ...]:
    found = connection.execute(_GONE, (log.number, gone_ms))
    return tuple(name.partition("@")[0] for (name,) in found)
