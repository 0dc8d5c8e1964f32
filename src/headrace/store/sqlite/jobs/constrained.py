"""New jobs with constraints: a flow, a lane, a limit, a unique name or a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.constraints import KEY_LANE, encode_constraints
from headrace.core.job.envelope import FORMAT, with_id
from headrace.core.job.state import State
from headrace.core.queue_names import group_source
from headrace.store.queue_values import KEY_FULL, NO_ROOM, REFUSED
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import (
    CHILDREN,
    CONSTRAINED,
    FLOW_GATE,
    IN_FLOW,
    LADEN,
    Entry,
    is_constrained,
)
from headrace.store.sqlite.gates import flow_parts, flows, lanes, routing, uniques
from headrace.store.sqlite.gates.due_times import due_time, next_due, notify_due
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.rows import run_rows, runner_number, select_rows
from headrace.store.values import Arrival, JobEnding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Parcel
    from headrace.store.sqlite.change import Change

_INSERT = """
    INSERT INTO jobs (id, queue, job_id, priority, constraints, envelope, state, position, time_ms,
        flags, lane, task_lane, gate, reason, runner, history, flow)
    VALUES {rows}"""
_ENDED = """
    WITH named (queue, job_id, now_ms) AS (VALUES {rows})
    SELECT results.job_id FROM named JOIN results
        ON results.queue = named.queue AND results.job_id = named.job_id
    WHERE results.expires_ms > named.now_ms"""
_LAST_TICKS = """
    WITH named (queue, schedule) AS (VALUES {rows})
    SELECT ticks.schedule, ticks.last_ms FROM named JOIN ticks
        ON ticks.queue = named.queue AND ticks.schedule = named.schedule"""
_TICK = "INSERT OR REPLACE INTO ticks (queue, schedule, last_ms) VALUES {rows}"
_REPLACE = """
    UPDATE jobs SET envelope = ?, runner = ?, time_ms = ?, constraints = ?, priority = ?, flags = ?
    WHERE id = ?"""
SENT = {"waiting": "sent", "scheduled": "scheduled", "blocked": "blocked"}


def append_constrained(
    change: Change,
    parcels: Sequence[Parcel],
    *,
    may_exist: bool,
    since: Mapping[JobId, int] | None = None,
    room: int | None = None,
    most_per_key: int = 0,
) -> dict[int, JobId]:
    """As `insert.append`, for jobs of any kind. `since` says when jobs that have waited elsewhere
    became ready; `room` how many may be added, `most_per_key` how many of one key may be blocked,
    if that is bounded."""
    change.get_or_create_number()
    entering = [parcel for parcel in parcels if most_per_key and _enters_lane(change, parcel)]
    pending = lanes.PendingOfKeys(change, entering, most_per_key)
    refused = _refuse(change, parcels, may_exist=may_exist, room=room, pending=pending)
    added = [parcel for at, parcel in enumerate(parcels) if at not in refused]
    _add(change, added, since or {})
    for at, standing in refused.items():
        parcel = parcels[at]
        if standing in REFUSED:
            continue
        if parcel.constraints.debounced and standing != parcel.job_id:
            _replace(change, standing, parcel)
        if parcel.children:
            _follow_standing(change, parcel, standing)
    return refused


def _refuse(
    change: Change,
    parcels: Sequence[Parcel],
    *,
    may_exist: bool,
    room: int | None,
    pending: lanes.PendingOfKeys,
) -> dict[int, JobId]:
    known = set(entries.by_job_ids(change.connection, change.number, [p.job_id for p in parcels]))
    if may_exist:
        rows = [(change.number, parcel.job_id, change.now_ms) for parcel in parcels]
        known.update(job_id for (job_id,) in select_rows(change.connection, _ENDED, rows))
    names = uniques.taken(change, {p.constraints.unique for p in parcels if p.constraints.unique})
    ticks = _last_ticks(change, parcels)
    refused: dict[int, JobId] = {}
    for at, parcel in enumerate(parcels):
        tick, name = parcel.tick, parcel.constraints.unique
        if parcel.job_id in known or (
            tick and tick.at_ms <= ticks.get(tick.schedule, tick.at_ms - 1)
        ):
            refused[at] = parcel.job_id
        elif name in names:
            refused[at] = names[name]
        elif room == 0 or pending.is_full(parcel):
            # Its tick has not been fired.
            refused[at] = KEY_FULL if pending.is_full(parcel) else NO_ROOM
            continue
        else:
            pending.add(parcel)
            room = None if room is None else room - 1
            known.add(parcel.job_id)
            if name and _takes_name(change, parcel):
                names[name] = parcel.job_id
        if tick:
            ticks[tick.schedule] = max(tick.at_ms, ticks.get(tick.schedule, tick.at_ms))
    run_rows(change.connection, _TICK, [(change.number, *tick) for tick in ticks.items()])
    return refused


def _takes_name(change: Change, parcel: Parcel) -> bool:
    """Whether the job has its unique name: a debounced one does until it is due."""
    if not parcel.constraints.debounced or parcel.parents:
        return True
    return due_time(change.now_ms, parcel.delay_ms, parcel.at_ms) > 0


def _enters_lane(change: Change, parcel: Parcel) -> bool:
    """Whether a new job goes to the lane of its key at once."""
    if not parcel.constraints.lane.startswith(KEY_LANE) or parcel.parents:
        return False
    return not due_time(change.now_ms, parcel.delay_ms, parcel.at_ms)


def _last_ticks(change: Change, parcels: Sequence[Parcel]) -> dict[str, int]:
    schedules = {parcel.tick.schedule for parcel in parcels if parcel.tick}
    rows = [(change.number, schedule) for schedule in schedules]
    return dict(select_rows(change.connection, _LAST_TICKS, rows))


def _add(change: Change, parcels: Sequence[Parcel], since: Mapping[JobId, int]) -> None:
    if not parcels:
        return
    flow_parts.begin(change, {p.constraints.flow for p in parcels if p.begins_flow})
    first = change.new_numbers(len(parcels))
    new = [_entry(change, parcel, place) for place, parcel in enumerate(parcels, start=first)]
    due_times = [entry.time_ms for entry in new if entry.state == "scheduled"]
    if due_times:
        notify_due(change, min(due_times), next_due(change.connection, change.number))
    for entry in new:
        if entry.state == "waiting":
            entry.time_ms = since.get(entry.job_id, change.now_ms)
    routing.pass_gates(change, new)
    rows = [
        (entry.id, change.number, entry.job_id, parcel.constraints.priority, entry.raw_constraints,
         parcel.envelope, *entry.place, _runner(change, parcel), parcel.history,
         parcel.constraints.flow)
        for entry, parcel in zip(new, parcels, strict=True)
    ]  # fmt: skip
    run_rows(change.connection, _INSERT, rows)
    uniques.take(
        change,
        [
            (p.constraints.unique, p.job_id)
            for p in parcels
            if p.constraints.unique and _takes_name(change, p)
        ],
    )
    flow_parts.join(change, {p.constraints.flow for p in parcels if p.constraints.flow})
    flows.note_parents(change, parcels)
    flows.note_children(
        change, [(p.job_id, p.job_id, child) for p in parcels for child in p.children]
    )
    _notify_of_new(change, new)


def _runner(change: Change, parcel: Parcel) -> int:
    """Events are not kept apart by runner."""
    return FORMAT if group_source(change.queue) else runner_number(parcel.envelope)


def _entry(change: Change, parcel: Parcel, place: int) -> Entry:
    constraints = parcel.constraints
    raw_constraints = encode_constraints(constraints)
    flags = LADEN if raw_constraints or parcel.history else 0
    if is_constrained(constraints):
        flags |= CONSTRAINED
    if parcel.children:
        flags |= CHILDREN
    if constraints.flow:
        flags |= IN_FLOW
    entry = Entry(
        place, parcel.job_id, "waiting", place, 0, flags, raw_constraints=raw_constraints,
        head=parcel.envelope, decoded=constraints,
    )  # fmt: skip
    if parcel.parents:
        entry.block_at(FLOW_GATE, "flow")
    elif due := due_time(change.now_ms, parcel.delay_ms, parcel.at_ms):
        entry.state, entry.time_ms, entry.position = "scheduled", due, 0
    return entry


def _notify_of_new(change: Change, new: Sequence[Entry]) -> None:
    if any(entry.state == "waiting" for entry in new):
        change.notify("ready")
    for entry in new:
        change.record(SENT[entry.state], entry.job_id, task_of(entry.head), 0, 0, 0, entry.reason)
    if change.facts is not None:
        change.sent = len(change.facts)


def _replace(change: Change, standing: JobId, parcel: Parcel) -> None:
    """Give a debounced job that is not due yet the time, arguments and constraints of a later
    one."""
    first = entries.by_job_ids(change.connection, change.number, [standing]).get(standing)
    if first is None or first.state != "scheduled" or not first.constraints.debounced:
        return
    due = due_time(change.now_ms, parcel.delay_ms, parcel.at_ms) or change.now_ms
    notify_due(change, due, next_due(change.connection, change.number))
    envelope = with_id(parcel.envelope, standing)
    later = _entry(change, parcel, first.id)
    flags = first.flags & ~(LADEN | CONSTRAINED) | later.flags
    change.connection.execute(
        _REPLACE,
        (
            *(envelope, _runner(change, parcel), due, later.raw_constraints),
            *(parcel.constraints.priority, flags, first.id),
        ),
    )


def _follow_standing(change: Change, parcel: Parcel, standing: JobId) -> None:
    """Make the children of a job that was not added wait for the one that stands for it. If that
    has ended, its end arrives at once."""
    for child in parcel.children:
        ending: JobEnding | None = JobEnding(State.DONE)
        # A job that stands for its own parent must not wait for itself.
        if (child.queue, child.job_id) != (change.queue, standing):
            ending = flows.follow(change, standing, [child], known_as=parcel.job_id)
        if ending is not None:
            arrival = Arrival(child.job_id, parcel.job_id, ending, child.runs_anyway)
            change.arrivals.append((child.queue, arrival))
