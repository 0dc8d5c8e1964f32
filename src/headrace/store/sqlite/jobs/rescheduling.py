"""Gives waiting and scheduled jobs another time, priority or queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.core.job.constraints import encode_constraints
from headrace.core.job.parcel import Parcel
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import CHILDREN, IN_FLOW, LADEN, MARKED, REPORTED
from headrace.store.sqlite.gates import lanes, limits, routing, uniques
from headrace.store.sqlite.gates.due_times import due_time, next_due, notify_due
from headrace.store.sqlite.inspection import progress_log
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs.constrained import append_constrained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.queue_values import Rescheduling
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_PRIORITISE = "UPDATE jobs SET priority = ?, constraints = ?, flags = ? WHERE id = ?"
_BODY = """
    SELECT CAST(envelope AS BLOB), CAST(history AS BLOB), CAST(inputs AS BLOB) FROM jobs
    WHERE id = ?"""


def reschedule(change: Change, job_ids: Sequence[JobId], to: Rescheduling) -> list[bool]:
    """See `headrace.store.contract.Store.reschedule`."""
    found = entries.by_job_ids(change.connection, change.number, job_ids)
    movable = {
        job_id: entry for job_id, entry in found.items() if entry.state in ("waiting", "scheduled")
    }
    if to.queue:
        movable = {job_id: e for job_id, e in movable.items() if _move_away(change, e, to)}
    else:
        for entry in movable.values():
            _move_within(change, entry, to)
    return [job_id in movable for job_id in job_ids]


def _move_within(change: Change, entry: Entry, to: Rescheduling) -> None:
    changed = _prioritise(change, entry, to.priority)
    due = due_time(change.now_ms, to.delay_ms, to.at_ms)
    if due:
        _put_off(change, entry, due)
    elif entry.state == "scheduled" and to.has_time:
        if entry.constraints.debounced:
            uniques.free(change, [entry])
        routing.go_on(change, [entry])
    elif entry.state == "waiting" and changed:
        # Behind the others of its new priority.
        entry.position = change.new_numbers(1)
        entries.save(change.connection, [entry])
        change.notify("ready")


def _put_off(change: Change, entry: Entry, due: int) -> None:
    notify_due(change, due, next_due(change.connection, change.number))
    if entry.state == "waiting":
        limits.give_back(change, [entry])
        lanes.leave(change, [entry])
    entry.state, entry.time_ms, entry.position = "scheduled", due, 0
    entries.save(change.connection, [entry])
    change.record("scheduled", entry.job_id, task_of(entry.head))


def _prioritise(change: Change, entry: Entry, priority: int | None) -> bool:
    """Give the job another priority; whether it had a different one."""
    if priority is None or priority == entry.constraints.priority:
        return False
    entry.decoded = msgspec.structs.replace(entry.constraints, priority=priority)
    entry.raw_constraints = encode_constraints(entry.decoded)
    entry.flags |= LADEN
    values = (priority, entry.raw_constraints, entry.flags, entry.id)
    change.connection.execute(_PRIORITISE, values)
    return True


def _move_away(change: Change, entry: Entry, to: Rescheduling) -> bool:
    """Move a job into another queue, in this change; False if others know it by its queue, or
    have their order with it there."""
    [(envelope, history, inputs)] = change.connection.execute(_BODY, (entry.id,)).fetchall()
    if (
        entry.constraints.unique
        or entry.constraints.flow
        or entry.constraints.lane
        or entry.constraints.task_lane
        or inputs
        or entry.flags & (CHILDREN | IN_FLOW | MARKED)
    ):
        return False
    at_ms, constraints = to.at_ms, entry.constraints
    if entry.state == "scheduled" and not to.has_time:
        at_ms = entry.time_ms
    if to.priority is not None:
        constraints = msgspec.structs.replace(constraints, priority=to.priority)
    limits.give_back(change, [entry])
    if entry.flags & REPORTED:
        progress_log.forget_progress(change, [entry.job_id])
    entries.delete(change.connection, [entry.id])
    parcel = Parcel(
        entry.job_id, envelope, to.delay_ms, at_ms, constraints=constraints, history=history
    )
    append_constrained(change.beside(to.queue), [parcel], may_exist=True)
    return True
