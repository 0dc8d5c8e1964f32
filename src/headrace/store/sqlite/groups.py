"""The groups of topics: where each stands in its log, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.ids import created_ms
from headrace.core.sources import GroupSource, group_source
from headrace.errors import ConfigError, GroupNotFound
from headrace.store.sqlite import logbook, reporting, stopping, surveying, untaken
from headrace.store.sqlite.entries import MARKED, REPORTED
from headrace.store.topics import GroupState

if TYPE_CHECKING:
    import sqlite3

    from headrace.store.sqlite.step import Step
    from headrace.store.topics import Group, Position

_LOOKED_AT = 1000

_SAME = """
    SELECT 1 FROM topic_groups JOIN queues ON queues.id = queue
    WHERE namespace = ? AND name = ? AND ordered = ? AND on_failure = ?"""
_CHANGE = "UPDATE topic_groups SET ordered = ?, on_failure = ? WHERE queue = ?"
_MAKE = """
    INSERT INTO topic_groups (queue, log, ordered, on_failure, position, seen_ms)
    VALUES (?, ?, ?, ?, ?, ?)"""
_MOVE = "UPDATE topic_groups SET position = ? WHERE queue = ? RETURNING ordered"
# For each state on its own, because each has an index of its own.
_FORGET_UNBEGUN = """
    DELETE FROM jobs WHERE queue = ? AND state = '{state}' AND past = x'' AND EXISTS (
        SELECT 1 FROM topic_events WHERE log = ? AND topic_events.key = jobs.key)
    RETURNING key, lane, flags"""
_UNBEGUN = [_FORGET_UNBEGUN.format(state=state) for state in ("waiting", "blocked")]
_ALL = """
    SELECT name, queue, ordered, on_failure, seen_ms,
        (SELECT count(*) FROM stopped_keys WHERE stopped_keys.queue = topic_groups.queue)
    FROM topic_groups JOIN queues ON queues.id = queue WHERE log = ? ORDER BY name"""
_TAKEN = """
    SELECT held.key, added_ms
    FROM (SELECT key FROM jobs WHERE queue = ? AND state = '{state}' ORDER BY {order} LIMIT ?)
        AS held LEFT JOIN topic_events ON log = ? AND topic_events.key = held.key"""
_ORDERS = {
    "waiting": "priority DESC, position",
    "running": "time_ms",
    "scheduled": "time_ms",
    "blocked": "id",
}
_OLDEST = [_TAKEN.format(state=state, order=order) for state, order in _ORDERS.items()]
_DROP_LINES = "DELETE FROM lines WHERE log IN (SELECT id FROM logs WHERE queue = ?)"
_DROP = [
    f"DELETE FROM {table} WHERE queue = ?"
    for table in (
        "jobs", "results", "uniques", "ticks", "children", "joins", "parents", "limits", "starts",
        "progress", "logs", "marks", "facts", "counters", "stopped_keys", "topic_groups",
    )
]  # fmt: skip
_DROP_NAMED = [f"DELETE FROM {t} WHERE namespace = ? AND queue = ?" for t in ("pauses", "looks")]


def unchanged(
    connection: sqlite3.Connection, *, namespace: str, queue: str, group: Group
) -> bool | None:
    """False if the group is there and as it should be, so that `join` has nothing to do."""
    wanted = (namespace, queue, group.ordered, group.on_failure)
    return None if connection.execute(_SAME, wanted).fetchone() is None else False


def join(step: Step, group: Group, begin: Position, *, again: bool = False) -> bool:
    """Have the group be as it should; whether it is new. If who asks has seen it (`again`) and it
    is not there, someone removed it on purpose: that is left so."""
    source = _source(step.queue)
    wants = (group.ordered, group.on_failure)
    if step.connection.execute(_CHANGE, (*wants, step.number)).rowcount or again:
        return False
    log = logbook.made(step.beside(source.log))
    at = logbook.before(step.connection, log, source.log, begin)
    step.connection.execute(_MAKE, (step.made_number(), log.number, *wants, at, step.now_ms))
    step.tell("ready")
    return True


def rewind(step: Step, to: Position) -> None:
    """Move the group to another place in its log."""
    source = _source(step.queue)
    log = logbook.find(step.connection, namespace=step.namespace, log=source.log)
    at = 0 if log is None else logbook.before(step.connection, log, source.log, to)
    moved = step.connection.execute(_MOVE, (at, step.number)).fetchall()
    if not moved or log is None:
        raise GroupNotFound(step.queue)
    if moved[0][0]:
        stopping.free_after(step, log.number, at)
        _forget_unbegun(step, log.number)
    step.tell("ready")


def _forget_unbegun(step: Step, log: int) -> None:
    """Forget what the group has taken and not begun: left where it is, it would be ahead of earlier
    events of its key. What the log no longer has could not come again, and stays."""
    for forget in _UNBEGUN:
        gone = step.connection.execute(forget, (step.number, log)).fetchall()
        step.freed_lanes.update(lane for _, lane, _ in gone if lane)
        reporting.forget_progress(step, [key for key, _, flags in gone if flags & REPORTED])
        reporting.forget_marks(step, [key for key, _, flags in gone if flags & MARKED])


def disband(step: Step) -> bool:
    """Remove the group and all that there is of it; False if there is none."""
    _source(step.queue)
    step.connection.execute(_DROP_LINES, (step.number,))
    for drop in _DROP:
        dropped = step.connection.execute(drop, (step.number,)).rowcount
    if not dropped:
        return False
    for drop in _DROP_NAMED:
        step.connection.execute(drop, (step.namespace, step.queue))
    step.tell("control")
    return True


def _source(queue: str) -> GroupSource:
    source = group_source(queue)
    if source is None:
        raise ConfigError(f"{queue!r} is not the queue of a group: those are named group@topic")
    return source


def groups(connection: sqlite3.Connection, *, namespace: str, log: str) -> list[GroupState]:
    found = logbook.find(connection, namespace=namespace, log=log)
    if found is None:
        return []
    rows = connection.execute(_ALL, (found.number,)).fetchall()
    return [_state(connection, namespace, found.number, row) for row in rows]


def _state(
    connection: sqlite3.Connection, namespace: str, log: int, row: tuple[Any, ...]
) -> GroupState:
    name, queue, ordered, on_failure, seen_ms, stopped = row
    behind = untaken.find(connection, [queue]).get(queue, untaken.NOTHING)
    return GroupState(
        _source(name).group,
        bool(ordered),
        on_failure,
        behind.count,
        surveying.count(connection, namespace=namespace, queue=name),
        _oldest_ms(connection, queue, log, behind.oldest_ms),
        seen_ms,
        stopped,
    )


def _oldest_ms(
    connection: sqlite3.Connection, queue: int, log: int, untaken_ms: int | None
) -> int | None:
    """When the first of those that are not settled was added, as far as the first thousand in each
    state tell; of one that the log holds no more, when its id was made."""
    times = [untaken_ms]
    for sql in _OLDEST:
        for key, added in connection.execute(sql, (queue, _LOOKED_AT, log)):
            times.append(created_ms(key) if added is None else added)
    return min((at_ms for at_ms in times if at_ms is not None), default=None)
