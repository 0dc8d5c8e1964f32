"""Adding jobs to a queue: new ones, and dead ones that are replayed."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from headrace.core.job.history import replayed_history
from headrace.core.queue_names import group_source
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import LADEN, flags_again
from headrace.store.sqlite.gates import flows, routing, uniques
from headrace.store.sqlite.gates.due_times import due_time, next_due, notify_due
from headrace.store.sqlite.inspection.facts import task_of
from headrace.store.sqlite.jobs import completion
from headrace.store.sqlite.jobs.constrained import append_constrained
from headrace.store.sqlite.rows import run_rows, runner_number, select_rows
from headrace.store.sqlite.topics import stopped_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Parcel
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_INSERT = """
    INSERT INTO jobs (id, queue, job_id, state, position, time_ms, envelope, runner) VALUES {rows}
    ON CONFLICT DO NOTHING"""
_INSERT_UNLESS_ENDED = """
    WITH new (id, queue, job_id, state, position, time_ms, envelope, runner) AS (VALUES {rows})
    INSERT INTO jobs (id, queue, job_id, state, position, time_ms, envelope, runner)
    SELECT * FROM new WHERE NOT EXISTS (
        SELECT 1 FROM results AS r
        WHERE r.queue = new.queue AND r.job_id = new.job_id AND r.expires_ms > ?)
    ON CONFLICT DO NOTHING"""
_REPLAY = """
    WITH again (id, place, flags, envelope, runner, history) AS (VALUES {rows})
    UPDATE jobs SET id = again.place, flags = again.flags, count = 0, owner = '',
        history = again.history,
        envelope = coalesce(again.envelope, jobs.envelope),
        runner = coalesce(again.runner, jobs.runner)
    FROM again WHERE jobs.id = again.id"""
_HISTORIES = """
    WITH named (id) AS (VALUES {rows})
    SELECT jobs.id, CAST(history AS BLOB) FROM named JOIN jobs ON jobs.id = named.id"""
_IS_PLAIN = attrgetter("is_plain")


def append(change: Change, parcels: Sequence[Parcel], *, may_exist: bool) -> dict[int, JobId]:
    """Add jobs; returns those that were not added: position to the job that is there instead."""
    if all(map(_IS_PLAIN, parcels)):
        return _append_plain(change, parcels, may_exist=may_exist)
    return append_constrained(change, parcels, may_exist=may_exist)


def _append_plain(
    change: Change, parcels: Sequence[Parcel], *, may_exist: bool
) -> dict[int, JobId]:
    number = change.get_or_create_number()
    first = change.new_numbers(len(parcels))
    rows = [
        _row(number, parcel, place, change.now_ms)
        for place, parcel in enumerate(parcels, start=first)
    ]
    _notify_of_rows(change, rows)
    if may_exist:
        added = run_rows(change.connection, _INSERT_UNLESS_ENDED, rows, change.now_ms)
    else:
        added = run_rows(change.connection, _INSERT, rows)
    refused: dict[int, JobId] = {}
    if added < len(rows):
        ids = change.connection.execute(
            "SELECT id FROM jobs WHERE id BETWEEN ? AND ?", (first, first + len(rows) - 1)
        )
        new = {id for (id,) in ids}
        refused = {place: row[2] for place, row in enumerate(rows) if row[0] not in new}
    if change.facts is not None:
        change.facts += [
            ("sent" if row[3] == "waiting" else "scheduled", row[2], task_of(row[6]))
            for place, row in enumerate(rows)
            if place not in refused
        ]
        change.sent = len(change.facts)
    return refused


def _row(queue: int, parcel: Parcel, place: int, now_ms: int) -> tuple[Any, ...]:
    envelope = parcel.envelope
    runner = runner_number(envelope)
    if parcel.delay_ms is None and parcel.at_ms is None:
        return place, queue, parcel.job_id, "waiting", place, now_ms, envelope, runner
    due = due_time(now_ms, parcel.delay_ms, parcel.at_ms)
    if not due:
        return place, queue, parcel.job_id, "waiting", place, now_ms, envelope, runner
    return place, queue, parcel.job_id, "scheduled", 0, due, envelope, runner


def _notify_of_rows(change: Change, rows: Sequence[tuple[Any, ...]]) -> None:
    """Call this before the rows are inserted."""
    due_times = [row[5] for row in rows if row[3] == "scheduled"]
    if due_times:
        notify_due(change, min(due_times), next_due(change.connection, change.number))
    if len(due_times) < len(rows):
        change.notify("ready")


def replay(
    change: Change, job_ids: Sequence[JobId], envelopes: Sequence[bytes] = (), by: str = ""
) -> list[bool]:
    """Send dead jobs again with all their tries; returns for each id whether it was of one."""
    found = entries.by_job_ids(change.connection, change.number, job_ids)
    bodies = dict(zip(job_ids, envelopes, strict=True)) if envelopes else {}
    # One that waits for a dead job goes on when that one is replayed.
    waiting = flows.with_failed_parents(change, job_ids)
    dead = {
        job_id: entry
        for job_id, entry in found.items()
        if entry.state == "dead" and job_id not in waiting
    }
    replayed = []
    chosen: list[Entry] = []
    for job_id in job_ids:
        # Popped, so that an id given twice is replayed once.
        entry = dead.pop(job_id, None)
        replayed.append(entry is not None)
        if entry is not None:
            chosen.append(entry)
    if chosen:
        _send_again(change, chosen, bodies, by)
    return replayed


def _send_again(
    change: Change, chosen: Sequence[Entry], bodies: dict[JobId, bytes], by: str
) -> None:
    rows = []
    before = dict(select_rows(change.connection, _HISTORIES, [(entry.id,) for entry in chosen]))
    for place, entry in enumerate(chosen, start=change.new_numbers(len(chosen))):
        history = replayed_history(before[entry.id], change.now_ms, by)
        entry.flags = flags_again(entry) | LADEN
        body = bodies.get(entry.job_id)
        runner = runner_number(body) if body else None
        rows.append((entry.id, place, entry.flags, body, runner, history))
        entry.id = place
        uniques.take_again(change, entry)
        change.record("replayed", entry.job_id, task_of(body or entry.head))
    run_rows(change.connection, _REPLAY, rows)
    completion.forget_results(change, chosen)
    if group_source(change.queue):
        stopped_keys.forget(change, [entry.job_id for entry in chosen])
    completion.notify_of_replay(change, chosen)
    routing.decide(change, chosen)
    entries.save(change.connection, chosen)
    change.notify("ready")
