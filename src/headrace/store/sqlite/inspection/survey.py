"""The state of queues: their counts, pauses, and how long jobs have waited."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from headrace.core.job.capacity import RUNNERS, Runner
from headrace.core.job.envelope import FORMATS
from headrace.core.queue_names import group_source
from headrace.store.sqlite.entries import json_of
from headrace.store.sqlite.topics import backlog
from headrace.store.values import Counts, QueueState, RunnerState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# Each state has an index of its own that covers these queries, so no row is read.
_OF_STATE = "(SELECT {wanted} FROM jobs WHERE jobs.queue = queues.id AND state = '{state}'{more})"


def _of(state: str, wanted: str = "count(*)", more: str = "") -> str:
    return _OF_STATE.format(wanted=wanted, state=state, more=more)


def _of_runner(runner: Runner) -> str:
    """Waiting, running, and when the oldest became ready, if that is known: zero says that it is
    not."""
    mine = f" AND runner = {FORMATS[runner]}"
    oldest = _of("waiting", "min(time_ms) FILTER (WHERE time_ms > 0)", mine)
    return f"{_of('waiting', more=mine)}, {_of('running', more=mine)}, {oldest}"


_COUNTS = ", ".join(_of(state) for state in Counts.__struct_fields__)
_DIED = _of("dead", "max(time_ms)")
_OTHERS = ", ".join([*(_of(state) for state in ("scheduled", "dead", "blocked")), _DIED])
_OF_RUNNERS = ", ".join(map(_of_runner, RUNNERS))
_NAMED = "namespace = ? AND name IN (SELECT value FROM json_each(?))"
_COUNT = f"SELECT name, id, {_COUNTS} FROM queues WHERE {_NAMED}"
SURVEY = f"SELECT name, id, {_OTHERS}, {_OF_RUNNERS} FROM queues WHERE {_NAMED}"
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
    _, number, waiting, running, scheduled, dead, blocked = row
    waiting += behind.get(number, backlog.NOTHING).count
    return Counts(waiting, running, scheduled, dead, blocked)


def _state(row: tuple[Any, ...] | None, behind: _Behind, paused: set[str]) -> QueueState:
    tasks = frozenset(paused - {""})
    if row is None:
        return QueueState(paused="" in paused, paused_tasks=tasks)
    _, number, *others, died_ms = row[:6]
    runners = _runners(row[6:], behind.get(number, backlog.NOTHING))
    counts = Counts(
        sum(state.waiting for state in runners.values()),
        sum(state.running for state in runners.values()),
        *others,
    )
    oldest_ms = _first(*(state.oldest_ms for state in runners.values()))
    known_ms = died_ms if isinstance(died_ms, int) else None
    return QueueState(counts, "" in paused, tasks, oldest_ms, runners, known_ms)


def _runners(numbers: tuple[Any, ...], behind: backlog.Backlog) -> dict[Runner, RunnerState]:
    found: dict[Runner, RunnerState] = {}
    for at, runner in enumerate(RUNNERS):
        waiting, running, oldest_ms = numbers[3 * at : 3 * at + 3]
        if runner == "loop":
            waiting, oldest_ms = waiting + behind.count, _first(oldest_ms, behind.oldest_ms)
        if waiting or running:
            found[runner] = RunnerState(waiting, running, oldest_ms)
    return found


def _first(*moments: int | None) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)
