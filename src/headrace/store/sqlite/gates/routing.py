"""The way of a job whose time has come: into its lane, through its limits, in line for workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.sqlite import entries
from headrace.store.sqlite.gates import lanes, limits
from headrace.store.sqlite.inspection.facts import task_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry


def decide(change: Change, arrived: Sequence[Entry]) -> None:
    """Set where jobs must wait now: behind all others of the queue, or blocked. Not written yet."""
    for place, entry in enumerate(arrived, start=change.new_numbers(len(arrived))):
        entry.be_ready(change.now_ms)
        entry.position = place
    lanes.enter(change, arrived)
    limits.pass_through(change, arrived)


def go_on(change: Change, arrived: Sequence[Entry]) -> None:
    """Let jobs go on that had to wait for something."""
    if arrived:
        decide(change, arrived)
        entries.save(change.connection, arrived)
        tell_of_ready(change, arrived)


def refill_lanes(change: Change) -> None:
    """Let the next into lanes that have a place free."""
    freed, change.freed_lanes = change.freed_lanes, set()
    while freed:
        entering = lanes.next_in_line(change, freed)
        go_on(change, entering)
        freed = {entry.lane for entry in entering}


def tell_of_ready(change: Change, moved: Iterable[Entry]) -> None:
    """Make it known that there are jobs to fetch, if there are."""
    ready = [entry for entry in moved if entry.state == "waiting"]
    for entry in ready:
        change.record("ready", entry.job_id, task_of(entry.head))
    if ready:
        change.tell("ready")
