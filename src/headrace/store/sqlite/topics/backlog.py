"""Events that a group has not taken from its log yet: they are waiting too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.core.job.state import State
from headrace.store.contract import JobSnapshot
from headrace.store.sqlite.entries import json_of
from headrace.store.sqlite.rows import numbers_in, page_values
from headrace.store.values import JobIdPage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId

_BEHIND = """
    SELECT queue, last - max(position + 1, first) + 1,
        (SELECT added_ms FROM topic_events WHERE id = max(position + 1, first))
    FROM topic_groups CROSS JOIN topics ON topics.log = topic_groups.log
    WHERE queue IN (SELECT value FROM json_each(?)) AND position < last AND first <= last"""
_EVENT = """
    SELECT envelope FROM topic_groups
        JOIN topic_events ON topic_events.log = topic_groups.log AND topic_events.job_id = ?
    WHERE queue = ? AND topic_events.id > position"""
_PLACE = """
    SELECT position, last FROM topic_groups JOIN topics ON topics.log = topic_groups.log
    WHERE queue = ?"""
_IDS = "SELECT job_id, id FROM topic_events WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
_AFTER_ALL = [2**63 - 1, 0, 0, 0]


class Backlog(msgspec.Struct, frozen=True):
    count: int = 0
    oldest_ms: int | None = None
    """When the first of them was added to the log."""


NOTHING = Backlog()


def find(connection: sqlite3.Connection, queues: Sequence[int]) -> dict[int, Backlog]:
    """The backlog of each of these groups that has one, by the number of its queue."""
    if not queues:
        return {}
    found = connection.execute(_BEHIND, (json_of(queues),))
    return {queue: Backlog(*behind) for queue, *behind in found}


def snapshot(
    connection: sqlite3.Connection, queue: int, job_id: JobId, *, bodies: bool
) -> JobSnapshot | None:
    found = connection.execute(_EVENT, (job_id, queue)).fetchone()
    if found is None:
        return None
    return JobSnapshot(State.WAITING, envelope=found[0] if bodies else b"")


def browse(
    connection: sqlite3.Connection,
    queue: int,
    taken: tuple[str, list[int]],
    cursor: str,
    limit: int,
) -> JobIdPage:
    """A page of waiting events: first those in the group's queue, by the query `taken`, then those
    in the log. The cursor also holds a place in the log, so that events taken meanwhile are not
    missed."""
    sql, start = taken
    position, last = connection.execute(_PLACE, (queue,)).fetchone() or (0, 0)
    *after, at = (
        numbers_in(cursor, len(start) + 1, "waiting events") if cursor else [*start, position]
    )
    rows = connection.execute(sql, page_values(queue, after, limit)).fetchall()
    job_ids = [row[0] for row in rows]
    following = rows[-1][1:] if rows else after
    if len(rows) < limit:
        events = connection.execute(_IDS, (at, last, limit - len(rows))).fetchall()
        job_ids += [job_id for job_id, _ in events]
        at = events[-1][1] if events else last
        following = _AFTER_ALL
    is_last = len(job_ids) < limit
    return JobIdPage(job_ids, "" if is_last else "_".join(map(str, [*following, at])))
