"""The state of queues: their counts, pauses, and how long jobs have waited."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from headrace.core.queue_names import group_source
from headrace.store.sqlite.entries import json_of
from headrace.store.sqlite.topics import backlog
from headrace.store.values import Counts, QueueState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# Each state has an index of its own that covers these queries, so no row is read.
_OF_STATE = "(SELECT {wanted} FROM jobs WHERE jobs.queue = queues.id AND state = '{state}')"
_COUNTS = ", ".join(
    _OF_STATE.format(wanted="count(*)", state=state) for state in Counts.__struct_fields__
)
# Zero: when it became ready is not known.
_OLDEST = _OF_STATE.format(wanted="min(time_ms) FILTER (WHERE time_ms > 0)", state="waiting")
_NAMED = "namespace = ? AND name IN (SELECT value FROM json_each(?))"
_COUNT = f"SELECT name, id, {_COUNTS} FROM queues WHERE {_NAMED}"
SURVEY = f"SELECT name, id, {_COUNTS}, {_OLDEST} FROM queues WHERE {_NAMED}"
_PAUSED = """
    SELECT queue, task FROM pauses
    WHERE namespace = ? AND queue IN (SELECT value FROM json_each(?))"""


def count(connection: sqlite3.Connection, namespace: str, *, queue: str) -> Counts:
    found = connection.execute(_COUNT, (namespace, json_of([queue]))).fetchall()
    behind = _behind(connection, found)
    return _counts(found[0], behind) if found else Counts()


def survey(
    connection: sqlite3.Connection, namespace: str, *, queues: Sequence[str]
) -> list[QueueState]:
    """The state of each queue, in the same few statements for any number of them."""
    named = (namespace, json_of(queues))
    found = connection.execute(SURVEY, named).fetchall()
    behind = _behind(connection, found)
    rows = {row[0]: row for row in found}
    paused = defaultdict(set)
    for queue, task in connection.execute(_PAUSED, named):
        paused[queue].add(task)
    return [_state(rows.get(queue), behind, paused.get(queue, set())) for queue in queues]


_Behind = dict[int, backlog.Backlog]


def _behind(connection: sqlite3.Connection, found: Sequence[Any]) -> _Behind:
    """Backlogs of groups, by the number of the group's queue."""
    return backlog.find(connection, [row[1] for row in found if group_source(row[0])])


def _counts(row: tuple[Any, ...], behind: _Behind) -> Counts:
    _, number, waiting, running, scheduled, dead, blocked = row[:7]
    waiting += behind.get(number, backlog.NOTHING).count
    return Counts(waiting, running, scheduled, dead, blocked)


def _state(row: tuple[Any, ...] | None, behind: _Behind, paused: set[str]) -> QueueState:
    tasks = frozenset(paused - {""})
    if row is None:
        return QueueState(paused="" in paused, paused_tasks=tasks)
    moments = (row[-1], behind.get(row[1], backlog.NOTHING).oldest_ms)
    oldest_ms = min((moment for moment in moments if moment is not None), default=None)
    return QueueState(_counts(row, behind), "" in paused, tasks, oldest_ms)
