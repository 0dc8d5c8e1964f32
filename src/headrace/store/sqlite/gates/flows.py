"""Flows: jobs that wait for others to end, in their own queue or in another.

All queues are in one database, so the end of a job arrives at its children in the same transaction,
in any queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.envelope import Malformed
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.flow_values import Cause, encode_cause
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import CHILDREN
from headrace.store.sqlite.rows import queue_id, run_rows, select_rows
from headrace.store.values import JobEnding

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Child, Parcel
    from headrace.store.sqlite.change import Change

_HAS_ARRIVED = "SELECT 1 FROM parents WHERE queue = ? AND child = ? AND parent = ? AND arrived"
_RESULT = "SELECT verdict FROM results WHERE queue = ? AND job_id = ? AND expires_ms > ?"
_NOTE_CHILDREN = """
    INSERT OR IGNORE INTO children (queue, parent, child_queue, child, known_as, runs_anyway)
    VALUES {rows}"""
_NOTE_JOINS = """
    INSERT OR REPLACE INTO joins (queue, child, remaining, delay_ms, at_ms) VALUES {rows}"""
_NOTE_PARENTS = "INSERT INTO parents (queue, child, parent, place) VALUES {rows}"
_WITH_FAILED = """
    WITH named (queue, child) AS (VALUES {rows})
    SELECT child FROM named WHERE EXISTS (
        SELECT 1 FROM parents WHERE parents.queue = named.queue AND parents.child = named.child
            AND failed_ms > 0)"""
_CAUSE = """
    SELECT CAST(cause AS BLOB) FROM parents WHERE queue = ? AND child = ? AND failed_ms > 0
    ORDER BY failed_ms, id LIMIT 1"""


def note_parents(change: Change, parcels: Iterable[Parcel]) -> None:
    """Write what new jobs wait for."""
    waiting = [parcel for parcel in parcels if parcel.parents]
    joins = [(change.number, p.job_id, len(p.parents), p.delay_ms, p.at_ms) for p in waiting]
    run_rows(change.connection, _NOTE_JOINS, joins)
    rows = [
        (change.number, p.job_id, parent, place)
        for p in waiting
        for place, parent in enumerate(p.parents)
    ]
    run_rows(change.connection, _NOTE_PARENTS, rows)


def note_children(change: Change, awaited: Iterable[tuple[JobId, JobId, Child]]) -> None:
    """Write the children of jobs: the job's id, the id by which the child knows it, the child."""
    rows = [
        (change.number, parent, child.queue, child.job_id, known_as, child.runs_anyway)
        for parent, known_as, child in awaited
    ]
    run_rows(change.connection, _NOTE_CHILDREN, rows)


def follow(
    change: Change, parent: JobId, children: Sequence[Child], known_as: JobId = b""
) -> JobEnding | None:
    """Send the end of `parent` to `children`; returns it instead if the parent has ended."""
    entry = entries.by_job_ids(change.connection, change.number, [parent]).get(parent)
    if entry is not None:
        note_children(change, [(parent, known_as or parent, child) for child in children])
        entries.flag(change.connection, change.number, [parent], CHILDREN)
        return _dead_ending(change, parent) if entry.state == "dead" else None
    kept = change.connection.execute(_RESULT, (change.number, parent, change.now_ms)).fetchone()
    return JobEnding(State.DONE) if kept is None else ending_of(kept[0])


def _dead_ending(change: Change, parent: JobId) -> JobEnding:
    cause = cause_of(change.connection, change.number, parent)
    return JobEnding(State.DEAD, cause or encode_cause(Cause(change.queue, parent)))


def cause_of(connection: sqlite3.Connection, queue: int, job_id: JobId) -> bytes:
    """Which job failed first, of those that keep a dead job from running; empty if none does."""
    found = connection.execute(_CAUSE, (queue, job_id)).fetchone()
    return found[0] if found else b""


def with_failed_parents(change: Change, job_ids: Iterable[JobId]) -> set[JobId]:
    """Those of these jobs that are dead because a job that they wait for is."""
    rows = [(change.number, job_id) for job_id in job_ids]
    return {child for (child,) in select_rows(change.connection, _WITH_FAILED, rows)}


def arrived(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queue: str,
    pairs: Sequence[tuple[JobId, JobId]],
) -> list[bool]:
    """For each pair of child and parent, whether the parent's end has arrived."""
    number = queue_id(connection, namespace, queue)
    return [
        connection.execute(_HAS_ARRIVED, (number, *pair)).fetchone() is not None for pair in pairs
    ]


def ending_of(verdict: bytes) -> JobEnding:
    if not verdict:
        return JobEnding(State.DONE)
    try:
        decoded = decode_verdict(verdict)
    except Malformed:
        # Not a verdict of ours. The job has ended, and its children must not wait for ever.
        return JobEnding(State.DONE)
    return JobEnding(decoded.state, decoded.value)
