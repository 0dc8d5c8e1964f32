"""The groups of topics: the position of each in its log, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.ids import created_ms
from headrace.core.queue_names import GroupSource, group_source
from headrace.errors import ConfigError, GroupNotFound
from headrace.store.sqlite.entries import MARKED, REPORTED, json_of
from headrace.store.sqlite.inspection import progress_log, survey
from headrace.store.sqlite.jobs import pruning
from headrace.store.sqlite.topics import backlog, stopped_keys, topic_log
from headrace.store.topics import GroupState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.store.sqlite.change import Change
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
# One statement for each state, because each has an index of its own.
_FORGET_UNBEGUN = """
    DELETE FROM jobs WHERE queue = ? AND state = '{state}' AND history = x'' AND EXISTS (
        SELECT 1 FROM topic_events WHERE log = ? AND topic_events.job_id = jobs.job_id)
    RETURNING job_id, lane, flags"""
_UNBEGUN = [_FORGET_UNBEGUN.format(state=state) for state in ("waiting", "blocked")]
_ALL = """
    SELECT queues.name, queue, ordered, on_failure, CAST(seen_ms AS INTEGER),
        (SELECT count(*) FROM stopped_keys WHERE stopped_keys.queue = topic_groups.queue)
    FROM queues AS logs CROSS JOIN topic_groups ON topic_groups.log = logs.id
        CROSS JOIN queues ON queues.id = topic_groups.queue
    WHERE logs.namespace = ? AND logs.name IN (SELECT value FROM json_each(?))
    ORDER BY queues.name"""
# If the log no longer has the event, its id says when it was made, if it has a time
# (`core/job/ids.py`).
_TAKEN = """
    SELECT topic_groups.queue, min(added_ms), min(jobs.job_id) FILTER (
        WHERE added_ms IS NULL AND length(jobs.job_id) = 16 AND substr(jobs.job_id, 1, 1) != x'3D')
    FROM topic_groups CROSS JOIN jobs ON jobs.id IN (
            SELECT held.id FROM jobs AS held
            WHERE held.queue = topic_groups.queue AND held.state = '{state}'
            ORDER BY {order} LIMIT ?)
        LEFT JOIN topic_events
            ON topic_events.log = topic_groups.log AND topic_events.job_id = jobs.job_id
    WHERE topic_groups.queue IN (SELECT value FROM json_each(?)) GROUP BY topic_groups.queue"""
_ORDERS = {
    "waiting": "held.runner, held.priority DESC, held.position",
    "running": "held.time_ms",
    "scheduled": "held.time_ms",
    "blocked": "held.id",
}
_OLDEST = [_TAKEN.format(state=state, order=order) for state, order in _ORDERS.items()]


def unchanged(
    connection: sqlite3.Connection, namespace: str, *, queue: str, group: Group
) -> bool | None:
    """False if the group is there as wanted, so that `join` has nothing to do; None if not."""
    wanted = (namespace, queue, group.ordered, group.on_failure)
    return None if connection.execute(_SAME, wanted).fetchone() is None else False


def join(change: Change, group: Group, begin: Position, *, again: bool = False) -> bool:
    """Create or change the group; returns whether it is new. With `again` the caller has seen the
    group: if it is missing, it was removed on purpose, and stays removed."""
    source = _source(change.queue)
    wants = (group.ordered, group.on_failure)
    if change.connection.execute(_CHANGE, (*wants, change.number)).rowcount or again:
        return False
    log = topic_log.get_or_create(change.beside(source.log))
    at = topic_log.before(change.connection, log, source.log, begin)
    change.connection.execute(
        _MAKE, (change.get_or_create_number(), log.number, *wants, at, change.now_ms)
    )
    change.notify("ready")
    return True


def rewind(change: Change, to: Position) -> None:
    """Move the group to a place in its log."""
    source = _source(change.queue)
    log = topic_log.find(change.connection, namespace=change.namespace, log=source.log)
    at = 0 if log is None else topic_log.before(change.connection, log, source.log, to)
    moved = change.connection.execute(_MOVE, (at, change.number)).fetchall()
    if not moved or log is None:
        raise GroupNotFound(change.queue)
    if moved[0][0]:
        stopped_keys.free_after(change, log.number, at)
        _forget_unbegun(change, log.number)
    change.notify("ready")


def _forget_unbegun(change: Change, log: int) -> None:
    """Delete events that the group has taken and not begun: they would be ahead of earlier events
    of their key. Events that the log no longer has could not come again, and stay."""
    for forget in _UNBEGUN:
        gone = change.connection.execute(forget, (change.number, log)).fetchall()
        change.freed_lanes.update(lane for _, lane, _ in gone if lane)
        progress_log.forget_progress(
            change, [job_id for job_id, _, flags in gone if flags & REPORTED]
        )
        progress_log.forget_marks(change, [job_id for job_id, _, flags in gone if flags & MARKED])


def disband(change: Change) -> bool:
    """Delete the group and all that it holds; False if there is none."""
    _source(change.queue)
    if not pruning.drop_rows(change, change.number):
        return False
    pruning.drop_control(change)
    return True


def _source(queue: str) -> GroupSource:
    source = group_source(queue)
    if source is None:
        raise ConfigError(f"{queue!r} is not the queue of a group: those are named group@topic")
    return source


def groups(
    connection: sqlite3.Connection, namespace: str, *, logs: Sequence[str]
) -> dict[str, list[GroupState]]:
    """The groups of each log, in the same few statements for any number of them."""
    rows = connection.execute(_ALL, (namespace, json_of(logs))).fetchall()
    queues = [row[1] for row in rows]
    behind, oldest = backlog.find(connection, queues), _oldest_taken(connection, queues)
    states = survey.survey(connection, namespace=namespace, queues=[row[0] for row in rows])
    found: dict[str, list[GroupState]] = {log: [] for log in logs}
    for (name, queue, ordered, *about), state in zip(rows, states, strict=True):
        source, left = group_source(name), behind.get(queue, backlog.NOTHING)
        if source is None or source.log not in found:
            # Not the name of a group: a row that another program wrote.
            continue
        on_failure, seen_ms, stopped = about
        oldest_ms = _first(left.oldest_ms, oldest.get(queue))
        found[source.log].append(
            GroupState(
                source.group,
                bool(ordered),
                on_failure if on_failure in ("block", "fail_key") else "skip",
                left.count,
                state.counts,
                oldest_ms,
                seen_ms,
                stopped,
                *stopped_keys.behind_stopped(connection, queue if stopped else None),
                state.last_died_ms,
            )
        )
    return found


def _oldest_taken(connection: sqlite3.Connection, queues: Sequence[int]) -> dict[int, int | None]:
    """When the oldest unsettled event in each group's queue was added to the log; if the log no
    longer has it, when its id was made. Examines the first thousand of each state."""
    oldest: dict[int, int | None] = {}
    for sql in _OLDEST if queues else ():
        for queue, added_ms, job_id in connection.execute(sql, (_LOOKED_AT, json_of(queues))):
            made_ms = None if job_id is None else created_ms(job_id)
            oldest[queue] = _first(oldest.get(queue), added_ms, made_ms)
    return oldest


def _first(*times: int | None) -> int | None:
    return min((at_ms for at_ms in times if at_ms is not None), default=None)
