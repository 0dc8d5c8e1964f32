"""The way of a job that is due: with its batch, or into its lanes and through its limits, to the
workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.sqlite import entries
from headrace.store.sqlite.gates import batches, lanes, limits
from headrace.store.sqlite.inspection.facts import task_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry


def decide(change: Change, arrived: Sequence[Entry]) -> None:
    """Set where jobs wait now: behind all others of the queue, or blocked. Not written yet."""
    for place, entry in enumerate(arrived, start=change.new_numbers(len(arrived))):
        entry.be_ready(change.now_ms)
        entry.position = place
    pass_gates(change, arrived)


def pass_gates(change: Change, arrived: Sequence[Entry], *, gathered: bool = False) -> None:
    """Block waiting jobs at the first gate that is closed to them; `gathered` if they have waited
    for their batches. Not written yet."""
    batches.gather(change, arrived, at_once=gathered)
    rooms = lanes.enter(change, arrived)
    limits.pass_through(change, arrived)
    if any(entry.constraints.task_lane for entry in arrived):
        # From the narrow to the wide: what a job keeps while it waits, only jobs could use that
        # need the next gate too.
        lanes.enter_task(change, arrived, rooms)
        limits.pass_through(change, [entry for entry in arrived if entry.task_lane])


def go_on(change: Change, arrived: Sequence[Entry]) -> None:
    """Let jobs go on to their next gate, or to the workers."""
    if arrived:
        decide(change, arrived)
        entries.save(change.connection, arrived)
        notify_ready(change, arrived)


def refill_lanes(change: Change) -> None:
    """Let the next jobs into lanes that have a free place."""
    freed, change.freed_lanes = change.freed_lanes, set()
    while freed:
        entering = lanes.next_blocked(change, freed)
        go_on(change, entering)
        freed = {lane for each in entering for lane in (each.lane, each.task_lane) if lane}


def release_batches(change: Change) -> int:
    """Let batches go to which jobs came, if they are whole or it is time; how many jobs moved."""
    moved = batches.release(change)
    notify_ready(change, moved)
    return len(moved)


def notify_ready(change: Change, moved: Iterable[Entry]) -> None:
    """Record the jobs that are waiting for a worker, and notify workers if there are any."""
    ready = [entry for entry in moved if entry.state == "waiting"]
    for entry in ready:
        change.record("ready", entry.job_id, task_of(entry.head))
    if ready:
        change.notify("ready")
