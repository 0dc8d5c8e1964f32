"""Flows: jobs that wait for others to end, in their own queue or in another.

All queues are in one database, so the end of a job arrives at its children in the same transaction,
in any queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from headrace.core.job.envelope import Malformed
from headrace.core.job.state import State
from headrace.core.job.verdict import decode_verdict
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import CHILDREN, FLOW_GATE, LADEN
from headrace.store.sqlite.gates import routing
from headrace.store.sqlite.gates.due_times import due_time, next_due, notify_due
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import completion
from headrace.store.sqlite.rows import queue_id, run_rows, select_rows
from headrace.store.values import Arrival, JobEnding

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Child, Parcel
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_NIL = b"\xc0"

_RESULT = "SELECT verdict FROM results WHERE queue = ? AND job_id = ? AND expires_ms > ?"
_NOTE_CHILDREN = """
    INSERT OR IGNORE INTO children (queue, parent, child_queue, child, known_as, runs_anyway)
    VALUES {rows}"""
_NOTE_JOINS = """
    INSERT OR REPLACE INTO joins (queue, child, remaining, delay_ms, at_ms) VALUES {rows}"""
_NOTE_PARENTS = "INSERT INTO parents (queue, child, parent, place) VALUES {rows}"
_HAS_ARRIVED = "SELECT 1 FROM parents WHERE queue = ? AND child = ? AND parent = ? AND arrived"
_ARRIVE = """
    WITH ended (queue, child, parent, value) AS (VALUES {rows})
    UPDATE parents SET arrived = 1, value = ended.value FROM ended
    WHERE parents.queue = ended.queue AND parents.child = ended.child
        AND parents.parent = ended.parent AND NOT arrived
    RETURNING child"""
_COUNT_DOWN = """
    WITH ended (queue, child, arrived) AS (VALUES {rows})
    UPDATE joins SET remaining = remaining - ended.arrived FROM ended
    WHERE joins.queue = ended.queue AND joins.child = ended.child
    RETURNING child, remaining, delay_ms, at_ms"""
_FEED = """
    WITH new (id, inputs) AS (VALUES {rows})
    UPDATE jobs SET inputs = new.inputs FROM new WHERE jobs.id = new.id"""


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
    if entry is not None and entry.state != "dead":
        note_children(change, [(parent, known_as or parent, child) for child in children])
        entries.flag(change.connection, change.number, [parent], CHILDREN)
        return None
    if entry is not None:
        return JobEnding(State.DEAD)
    kept = change.connection.execute(_RESULT, (change.number, parent, change.now_ms)).fetchone()
    return JobEnding(State.DONE) if kept is None else ending_of(kept[0])


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


def deliver(change: Change) -> None:
    """Deliver the ends of this change to all children, and the ends that this causes."""
    while change.arrivals:
        by_queue = defaultdict(list)
        for queue, arrival in change.arrivals:
            by_queue[queue].append(arrival)
        change.arrivals.clear()
        for queue, arrivals in by_queue.items():
            arrive(change.beside(queue), arrivals)


def arrive(change: Change, arrivals: Sequence[Arrival]) -> None:
    """Record that jobs which others wait for have ended; ends that this causes are gathered."""
    ended = [(change.number, a.child, a.parent, _value(a.ending)) for a in arrivals]
    reached = Counter(child for (child,) in select_rows(change.connection, _ARRIVE, ended))
    bad = {a.child: a.ending.state for a in reversed(arrivals) if _is_bad(a) and a.child in reached}
    counts = [(change.number, child, count) for child, count in reached.items()]
    complete = [
        row for row in select_rows(change.connection, _COUNT_DOWN, counts)
        if row[1] <= 0 and row[0] not in bad
    ]  # fmt: skip
    _end_with(change, bad)
    _set_free(change, complete)


def _value(ending: JobEnding) -> bytes:
    return (ending.value if ending.state == State.DONE else b"") or _NIL


def _is_bad(arrival: Arrival) -> bool:
    return arrival.ending.state != State.DONE and not arrival.runs_anyway


def _end_with(change: Change, bad: dict[JobId, State]) -> None:
    found = entries.by_job_ids(change.connection, change.number, bad)
    ended = [found[job_id] for job_id in bad if job_id in found and found[job_id].gate == FLOW_GATE]
    completion.fail(change, [entry for entry in ended if bad[entry.job_id] == State.DEAD])
    completion.cancel(change, [entry for entry in ended if bad[entry.job_id] != State.DEAD])


def _set_free(
    change: Change, complete: Sequence[tuple[JobId, int, int | None, int | None]]
) -> None:
    """Let jobs go on that now wait for no other job."""
    if not complete:
        return
    found = entries.by_job_ids(change.connection, change.number, [row[0] for row in complete])
    _feed(change, list(found.values()))
    later: list[Entry] = []
    ready: list[Entry] = []
    for job_id, _, delay_ms, at_ms in complete:
        if job_id in found:
            due = due_time(change.now_ms, delay_ms, at_ms)
            found[job_id].time_ms = due
            (later if due else ready).append(found[job_id])
    _schedule(change, later)
    routing.go_on(change, ready)


def _feed(change: Change, freed: Sequence[Entry]) -> None:
    """Give jobs the results that they waited for; the caller saves their flags."""
    values = defaultdict(list)
    for child, _, value in sorted(completion.forget_parents(change, [e.job_id for e in freed])):
        values[child].append(value)
    for entry in freed:
        entry.flags |= LADEN
    inputs = [(entry.id, _array(values[entry.job_id])) for entry in freed]
    run_rows(change.connection, _FEED, inputs)


def _array(values: Sequence[bytes]) -> bytes:
    """A MessagePack array of encoded values."""
    size = len(values)
    if size < 16:
        head = bytes([0x90 | size])
    elif size < 1 << 16:
        head = b"\xdc" + size.to_bytes(2, "big")
    else:
        head = b"\xdd" + size.to_bytes(4, "big")
    return head + b"".join(values)


def _schedule(change: Change, later: Sequence[Entry]) -> None:
    if not later:
        return
    notify_due(
        change, min(entry.time_ms for entry in later), next_due(change.connection, change.number)
    )
    for entry in later:
        entry.state, entry.gate, entry.reason = "scheduled", "", ""
        change.record("scheduled", entry.job_id, task_of(entry.head))
    entries.save(change.connection, later)
