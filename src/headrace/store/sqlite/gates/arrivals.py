"""Ends of jobs arrive at those that wait for them, and may take them along; so do replays."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

from headrace.core.job.state import State
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import FLOW_GATE, LADEN, flags_again
from headrace.store.sqlite.gates import added_parents, routing, uniques
from headrace.store.sqlite.gates.due_times import due_time, next_due, notify_due
from headrace.store.sqlite.gates.flows import cause_of, with_failed_parents
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import completion
from headrace.store.sqlite.rows import run_rows, select_rows
from headrace.store.values import JobEnding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry
    from headrace.store.values import Arrival

_NIL = b"\xc0"

_ARRIVE = """
    WITH ended (queue, child, parent, value) AS (VALUES {rows})
    UPDATE parents SET arrived = 1, value = ended.value, failed_ms = 0, cause = x'' FROM ended
    WHERE parents.queue = ended.queue AND parents.child = ended.child
        AND parents.parent = ended.parent AND NOT arrived
    RETURNING child"""
_COUNT_DOWN = """
    WITH ended (queue, child, arrived) AS (VALUES {rows})
    UPDATE joins SET remaining = remaining - ended.arrived FROM ended
    WHERE joins.queue = ended.queue AND joins.child = ended.child
    RETURNING child, remaining, delay_ms, at_ms"""
_FAIL = """
    WITH ended (queue, child, parent, cause, now_ms) AS (VALUES {rows})
    UPDATE parents SET failed_ms = ended.now_ms, cause = ended.cause FROM ended
    WHERE parents.queue = ended.queue AND parents.child = ended.child
        AND parents.parent = ended.parent AND NOT arrived AND NOT failed_ms
    RETURNING child"""
_BLAME = """
    WITH ended (queue, child, parent, cause) AS (VALUES {rows})
    UPDATE parents SET cause = ended.cause FROM ended
    WHERE parents.queue = ended.queue AND parents.child = ended.child
        AND parents.parent = ended.parent AND +failed_ms > 0 AND parents.cause != ended.cause
    RETURNING child"""
# With a plus, so that the parent is found by its id, not among all that failed.
_FORGIVE = """
    WITH named (queue, child, parent) AS (VALUES {rows})
    UPDATE parents SET failed_ms = 0, cause = x'' FROM named
    WHERE parents.queue = named.queue AND parents.child = named.child
        AND parents.parent = named.parent AND +failed_ms > 0
    RETURNING child"""
_NOTE_CANCELLED = """
    WITH named (queue, child, parent) AS (VALUES {rows})
    UPDATE joins SET cancelled = 1 FROM named
    WHERE joins.queue = named.queue AND joins.child = named.child AND EXISTS (
        SELECT 1 FROM parents WHERE parents.queue = named.queue AND parents.child = named.child
            AND parents.parent = named.parent AND NOT arrived)
    RETURNING child"""
_JOINS = """
    WITH named (queue, child) AS (VALUES {rows})
    SELECT joins.child, remaining, delay_ms, at_ms, cancelled FROM named JOIN joins
        ON joins.queue = named.queue AND joins.child = named.child"""
_FEED = """
    WITH new (id, inputs) AS (VALUES {rows})
    UPDATE jobs SET inputs = new.inputs FROM new WHERE jobs.id = new.id"""


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
    """Record that jobs which others wait for have ended, or were replayed; ends that this causes
    are gathered."""
    for handle, together in groupby(arrivals, _handler):
        handle(change, list(together))


def _handler(arrival: Arrival) -> Callable[[Change, Sequence[Arrival]], None]:
    state = arrival.ending.state
    if arrival.runs_anyway and state != State.WAITING:
        return _arrive_well
    match state:
        case State.WAITING:
            return _arrive_replayed
        case State.DONE:
            return _arrive_well
        case State.DEAD:
            return _arrive_dead
        case State.CANCELLED:
            return _arrive_cancelled
        case State.SCHEDULED | State.BLOCKED | State.RUNNING:
            raise ValueError(f"a job that is {state} has not ended")
        case _:
            assert_never(state)


def _arrive_well(change: Change, arrivals: Sequence[Arrival]) -> None:
    ended = [(change.number, a.child, a.parent, _value(a.ending)) for a in arrivals]
    reached = Counter(child for (child,) in select_rows(change.connection, _ARRIVE, ended))
    added_parents.drop_unconfirmed(change, [row[:3] for row in ended])
    counts = [(change.number, child, count) for child, count in reached.items()]
    complete = [row for row in select_rows(change.connection, _COUNT_DOWN, counts) if row[1] <= 0]
    # The end of a parent takes back that it had failed.
    dead = _revive(change, reached)
    _set_free(change, [row for row in complete if row[0] not in dead])


def _value(ending: JobEnding) -> bytes:
    return (ending.value if ending.state == State.DONE else b"") or _NIL


def _arrive_dead(change: Change, arrivals: Sequence[Arrival]) -> None:
    rows = [(change.number, a.child, a.parent, a.ending.value, change.now_ms) for a in arrivals]
    _blame(change, [row[:4] for row in rows])
    reached = {child for (child,) in select_rows(change.connection, _FAIL, rows)}
    causes = {a.child: a.ending.value for a in reversed(arrivals) if a.child in reached}
    found = _blocked(change, causes)
    completion.fail(change, [(entry, causes[entry.job_id]) for entry in found])


def _blame(change: Change, rows: Sequence[tuple[int, JobId, JobId, bytes]]) -> None:
    """Parents that had failed are forgotten: those that wait for their children cannot go on
    either."""
    reached = {child for (child,) in select_rows(change.connection, _BLAME, rows)}
    causes = {child: cause_of(change.connection, change.number, child) for child in reached}
    completion.tell_children(
        change, {child: JobEnding(State.DEAD, cause) for child, cause in causes.items()}
    )


def _arrive_cancelled(change: Change, arrivals: Sequence[Arrival]) -> None:
    rows = [(change.number, a.child, a.parent) for a in arrivals]
    reached = {child for (child,) in select_rows(change.connection, _NOTE_CANCELLED, rows)}
    select_rows(change.connection, _FORGIVE, rows)
    completion.cancel(change, _blocked(change, reached))
    _revive(change, reached)


def _arrive_replayed(change: Change, arrivals: Sequence[Arrival]) -> None:
    rows = [(change.number, a.child, a.parent) for a in arrivals]
    _revive(change, {child for (child,) in select_rows(change.connection, _FORGIVE, rows)})


def _blocked(change: Change, job_ids: Iterable[JobId]) -> list[Entry]:
    """The jobs that wait for others."""
    found = entries.by_job_ids(change.connection, change.number, job_ids).values()
    return [entry for entry in found if entry.gate == FLOW_GATE]


def _revive(change: Change, job_ids: Iterable[JobId]) -> set[JobId]:
    """Let jobs that died with a parent wait again, or go on, if no parent is dead any more, and so
    all that wait for them. Returns those that were dead."""
    dead = entries.dead_of(change.connection, change.number, job_ids)
    if not dead:
        return set()
    failed = with_failed_parents(change, dead)
    rows = [(change.number, job_id) for job_id in dead if job_id not in failed]
    joins = select_rows(change.connection, _JOINS, rows)
    revived = [dead[row[0]] for row in joins]
    for entry in revived:
        entry.flags = flags_again(entry)
        entry.block_at(FLOW_GATE, "flow")
        uniques.take_again(change, entry)
    completion.forget_results(change, revived)
    entries.save(change.connection, revived)
    completion.cancel(change, [dead[child] for child, *_, cancelled in joins if cancelled])
    going_on = [row for row in joins if not row[4]]
    completion.notify_of_replay(change, [dead[row[0]] for row in going_on])
    for child, remaining, *_ in going_on:
        if remaining > 0:
            change.record("blocked", child, task_of(dead[child].head), 0, 0, 0, "flow")
    _set_free(change, [row[:4] for row in going_on if row[1] <= 0])
    return set(dead)


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
