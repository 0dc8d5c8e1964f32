"""Adding events to logs, at once or when they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.constraints import decode_constraints
from headrace.core.queue_names import log_name, log_source
from headrace.store.contract import Promotion
from headrace.store.sqlite import entries
from headrace.store.sqlite.gates.due_times import due_time, next_due, promotion
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import insert
from headrace.store.sqlite.rows import run_rows, select_rows
from headrace.store.sqlite.topics import topic_log
from headrace.store.topics import Published

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Parcel
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.topics.topic_log import Log
    from headrace.store.topics import Bound

_PROMOTED_TOGETHER = 1000
# Limits the time of one publish after the bound was lowered.
_DROPPED_TOGETHER = 5000

_ADD = """
    INSERT INTO topic_events (id, log, job_id, added_ms, lane, envelope) VALUES {rows}
    ON CONFLICT DO NOTHING"""
_UNDO = "DELETE FROM topic_events WHERE id > ? AND id <= ?"
_IN_LOG = """
    WITH named (log, job_id) AS (VALUES {rows})
    SELECT topic_events.job_id FROM named JOIN topic_events
        ON topic_events.log = named.log AND topic_events.job_id = named.job_id"""
_DUE = """
    SELECT id, job_id, constraints, envelope FROM jobs
    WHERE queue = ? AND state = 'scheduled' AND time_ms <= ? ORDER BY time_ms, id LIMIT ?"""

New = tuple["JobId", str, bytes]
"""A new event: its id, its key as the name of a lane, its envelope."""


def publish(
    change: Change, events: Sequence[Parcel], *, bound: Bound | None, may_exist: bool
) -> Published:
    """Add or schedule events, as far as there is room."""
    log = topic_log.get_or_create(change)
    known = _known(change, log, [event.job_id for event in events]) if may_exist else set()
    again, now, later = _sorted_out(change, events, known)
    taken = len(events)
    refused: list[int] = []
    drops = bound is not None and _drops(change, log, bound)
    if bound is not None and not drops:
        room = _room(change, log, bound, len(now))
        if room < len(now) and bound.drops_newest:
            now, refused = now[:room], now[room:]
            change.count(log_name(log_source(change.queue)[0]), "dropped", len(refused))
        elif room < len(now):
            taken = now[room]
            now, later = now[:room], [place for place in later if place < taken]
    if later:
        insert.append(change, [events[place] for place in later], may_exist=False)
    there = _add(change, log, [_new(events[place]) for place in now], "sent")
    again += [place for place in now if events[place].job_id in there]
    dropped = len(refused)
    if bound is not None and drops:
        dropped = _drop_oldest(change, log, bound, len(now))
    again = sorted(place for place in again if place < taken)
    return Published(taken, tuple(again), dropped, tuple(refused))


def _sorted_out(
    change: Change, events: Sequence[Parcel], known: set[JobId]
) -> tuple[list[int], list[int], list[int]]:
    """Positions of events that are known already, to be added, and to be scheduled."""
    again: list[int] = []
    now: list[int] = []
    later: list[int] = []
    for place, event in enumerate(events):
        if event.job_id in known:
            again.append(place)
            continue
        known.add(event.job_id)
        due = due_time(change.now_ms, event.delay_ms, event.at_ms)
        (later if due else now).append(place)
    return again, now, later


def _new(event: Parcel) -> New:
    return event.job_id, event.constraints.lane, event.envelope


def _known(change: Change, log: Log, job_ids: Sequence[JobId]) -> set[JobId]:
    """The ids that are in the log, or scheduled for it."""
    scheduled = entries.by_job_ids(change.connection, log.number, job_ids)
    return {*scheduled, *_in_log(change, log, job_ids)}


def _in_log(change: Change, log: Log, job_ids: Iterable[JobId]) -> set[JobId]:
    rows = [(log.number, job_id) for job_id in job_ids]
    return {job_id for (job_id,) in select_rows(change.connection, _IN_LOG, rows)}


def _drops(change: Change, log: Log, bound: Bound) -> bool:
    """Whether the oldest events make room: the bound says so, or no group needs them."""
    return bound.drops_oldest or not topic_log.has_groups(
        change.connection, log, _seen_since(change, bound)
    )


def _seen_since(change: Change, bound: Bound) -> int:
    """Groups not seen since this time do not count against the bound."""
    return change.now_ms - bound.gone_after_ms


def _room(change: Change, log: Log, bound: Bound, wanted: int) -> int:
    """The room in the log, after settled events were deleted to make some."""
    lacking = wanted - (bound.most - log.length)
    if lacking > 0:
        upto = min(log.last, log.first + lacking - 1)
        settled = topic_log.settled(change.connection, log, upto, _seen_since(change, bound))
        topic_log.cut(change.connection, log, settled)
    return max(0, bound.most - log.length)


def _drop_oldest(change: Change, log: Log, bound: Bound, added: int) -> int:
    """Cut the log to its bound, or closer to it; returns how many unsettled events were dropped."""
    over = min(log.length - bound.most, max(added, _DROPPED_TOGETHER))
    if over <= 0:
        return 0
    upto = log.first + over - 1
    settled = topic_log.settled(change.connection, log, upto, _seen_since(change, bound))
    topic_log.cut(change.connection, log, upto)
    topic, _ = log_source(change.queue)
    change.count(log_name(topic), "dropped", upto - settled)
    return upto - settled


def _add(change: Change, log: Log, new: Sequence[New], kind: str) -> set[JobId]:
    """Add events at the end of the log; returns the ids that it has already."""
    if not new:
        return set()
    log.last_ms = max(log.last_ms, change.now_ms)
    refused: set[JobId] = set()
    if _write(change, log, new) < len(new):
        # Numbers have no gaps, so all rows are deleted and written again. It is rare: callers that
        # choose ids pass `may_exist`.
        change.connection.execute(_UNDO, (log.last, log.last + len(new)))
        refused = _in_log(change, log, [job_id for job_id, _, _ in new])
        new = [event for event in new if event[0] not in refused]
        _write(change, log, new)
    log.last += len(new)
    topic_log.save(change.connection, log)
    change.notify("ready")
    if change.facts is not None:
        change.facts += [(kind, job_id, task_of(envelope)) for job_id, _, envelope in new]
        change.sent = len(change.facts) if kind == "sent" else change.sent
    return refused


def _write(change: Change, log: Log, new: Sequence[New]) -> int:
    rows = [
        (number, log.number, job_id, log.last_ms, lane, envelope)
        for number, (job_id, lane, envelope) in enumerate(new, start=log.last + 1)
    ]
    return run_rows(change.connection, _ADD, rows)


def promote(change: Change) -> Promotion:
    """Add events that are due to the log, the earliest first."""
    log = topic_log.get_or_create(change)
    chosen = (log.number, change.now_ms, _PROMOTED_TOGETHER)
    due = change.connection.execute(_DUE, chosen).fetchall()
    entries.delete(change.connection, [id for id, _, _, _ in due])
    new = [
        (job_id, decode_constraints(constraints).lane, envelope)
        for _, job_id, constraints, envelope in due
    ]
    _add(change, log, new, "ready")
    return promotion(len(due), next_due(change.connection, log.number), change.now_ms)
