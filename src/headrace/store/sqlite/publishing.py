"""Adding events to logs: at once, or when their time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.constraints import decode_constraints
from headrace.core.queue_names import log_name, log_source
from headrace.store.contract import Promotion
from headrace.store.sqlite import entries, logbook, placing
from headrace.store.sqlite.facts import task_of
from headrace.store.sqlite.rows import run_rows, select_rows
from headrace.store.sqlite.scheduling import due_time, next_due, promotion
from headrace.store.topics import Published

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Parcel
    from headrace.store.sqlite.logbook import Log
    from headrace.store.sqlite.step import Step
    from headrace.store.topics import Bound

_PROMOTED_TOGETHER = 1000
# Bounds the time that one publish takes after a bound was lowered.
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
"""An event to be added: its id, its key as the name of a lane, its envelope."""


def publish(
    step: Step, events: Sequence[Parcel], *, bound: Bound | None, repeat: bool
) -> Published:
    """Add events, or schedule them, as far as there is room for them."""
    log = logbook.made(step)
    known = _known(step, log, [event.job_id for event in events]) if repeat else set()
    again, now, later = _sorted_out(step, events, known)
    taken = len(events)
    drops = bound is not None and _drops(step, log, bound)
    if bound is not None and not drops:
        room = _room(step, log, bound, len(now))
        if room < len(now):
            taken = now[room]
            now, later = now[:room], [place for place in later if place < taken]
    if later:
        placing.append(step, [events[place] for place in later], repeat=False)
    refused = _add(step, log, [_new(events[place]) for place in now], "sent")
    again += [place for place in now if events[place].job_id in refused]
    dropped = _drop_oldest(step, log, bound, len(now)) if bound is not None and drops else 0
    return Published(taken, tuple(sorted(place for place in again if place < taken)), dropped)


def _sorted_out(
    step: Step, events: Sequence[Parcel], known: set[JobId]
) -> tuple[list[int], list[int], list[int]]:
    """The places of those that are known already, of those to add, and of those to schedule."""
    again: list[int] = []
    now: list[int] = []
    later: list[int] = []
    for place, event in enumerate(events):
        if event.job_id in known:
            again.append(place)
            continue
        known.add(event.job_id)
        due = due_time(step.now_ms, event.delay_ms, event.at_ms)
        (later if due else now).append(place)
    return again, now, later


def _new(event: Parcel) -> New:
    return event.job_id, event.constraints.lane, event.envelope


def _known(step: Step, log: Log, job_ids: Sequence[JobId]) -> set[JobId]:
    """Those of these ids that are in the log, or scheduled to be."""
    scheduled = entries.by_job_ids(step.connection, log.number, job_ids)
    return {*scheduled, *_in_log(step, log, job_ids)}


def _in_log(step: Step, log: Log, job_ids: Iterable[JobId]) -> set[JobId]:
    rows = [(log.number, job_id) for job_id in job_ids]
    return {job_id for (job_id,) in select_rows(step.connection, _IN_LOG, rows)}


def _drops(step: Step, log: Log, bound: Bound) -> bool:
    """Whether the oldest make room: as the bound says, or because nobody needs them."""
    return bound.drops_oldest or not logbook.has_groups(
        step.connection, log, _seen_since(step, bound)
    )


def _seen_since(step: Step, bound: Bound) -> int:
    """A group that no worker has served since keeps no room from new events."""
    return step.now_ms - bound.gone_after_ms


def _room(step: Step, log: Log, bound: Bound, wanted: int) -> int:
    """For how many there is room, once what is settled has made some."""
    lacking = wanted - (bound.most - log.length)
    if lacking > 0:
        upto = min(log.last, log.first + lacking - 1)
        settled = logbook.settled(step.connection, log, upto, _seen_since(step, bound))
        logbook.cut(step.connection, log, settled)
    return max(0, bound.most - log.length)


def _drop_oldest(step: Step, log: Log, bound: Bound, added: int) -> int:
    """Have the log hold no more than it may, or come closer to it: how many had to go that were
    not settled."""
    over = min(log.length - bound.most, max(added, _DROPPED_TOGETHER))
    if over <= 0:
        return 0
    upto = log.first + over - 1
    settled = logbook.settled(step.connection, log, upto, _seen_since(step, bound))
    logbook.cut(step.connection, log, upto)
    topic, _ = log_source(step.queue)
    step.count(log_name(topic), "dropped", upto - settled)
    return upto - settled


def _add(step: Step, log: Log, new: Sequence[New], kind: str) -> set[JobId]:
    """Add events at the end of the log; the ids of those that it has already."""
    if not new:
        return set()
    log.last_ms = max(log.last_ms, step.now_ms)
    refused: set[JobId] = set()
    if _write(step, log, new) < len(new):
        # Numbers have no gaps, so all are taken back. It is rare: those who choose ids say so.
        step.connection.execute(_UNDO, (log.last, log.last + len(new)))
        refused = _in_log(step, log, [job_id for job_id, _, _ in new])
        new = [event for event in new if event[0] not in refused]
        _write(step, log, new)
    log.last += len(new)
    logbook.save(step.connection, log)
    step.tell("ready")
    if step.facts is not None:
        step.facts += [(kind, job_id, task_of(envelope)) for job_id, _, envelope in new]
        step.sent = len(step.facts) if kind == "sent" else step.sent
    return refused


def _write(step: Step, log: Log, new: Sequence[New]) -> int:
    rows = [
        (number, log.number, job_id, log.last_ms, lane, envelope)
        for number, (job_id, lane, envelope) in enumerate(new, start=log.last + 1)
    ]
    return run_rows(step.connection, _ADD, rows)


def promote(step: Step) -> Promotion:
    """Add events to the log whose time has come, the earliest due first."""
    log = logbook.made(step)
    chosen = (log.number, step.now_ms, _PROMOTED_TOGETHER)
    due = step.connection.execute(_DUE, chosen).fetchall()
    entries.delete(step.connection, [id for id, _, _, _ in due])
    new = [
        (job_id, decode_constraints(constraints).lane, envelope)
        for _, job_id, constraints, envelope in due
    ]
    _add(step, log, new, "ready")
    return promotion(len(due), next_due(step.connection, log.number), step.now_ms)
