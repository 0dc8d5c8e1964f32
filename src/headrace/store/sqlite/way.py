"""The way of a job whose time has come: into its lane, through its limits, in line for workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.sqlite import entries, lanes, limits
from headrace.store.sqlite.facts import task_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.entries import Entry
    from headrace.store.sqlite.step import Step


def decide(step: Step, arrived: Sequence[Entry]) -> None:
    """Set where jobs must wait now: behind all others of the queue, or blocked. Not written yet."""
    for place, entry in enumerate(arrived, start=step.new_numbers(len(arrived))):
        entry.be_ready(step.now_ms)
        entry.position = place
    lanes.enter(step, arrived)
    limits.pass_through(step, arrived)


def go_on(step: Step, arrived: Sequence[Entry]) -> None:
    """Let jobs go on that had to wait for something."""
    if arrived:
        decide(step, arrived)
        entries.save(step.connection, arrived)
        tell_of_ready(step, arrived)


def refill_lanes(step: Step) -> None:
    """Let the next into lanes that have a place free."""
    freed, step.freed_lanes = step.freed_lanes, set()
    while freed:
        entering = lanes.next_in_line(step, freed)
        go_on(step, entering)
        freed = {entry.lane for entry in entering}


def tell_of_ready(step: Step, moved: Iterable[Entry]) -> None:
    """Make it known that there are jobs to fetch, if there are."""
    ready = [entry for entry in moved if entry.state == "waiting"]
    for entry in ready:
        step.record("ready", entry.job_id, task_of(entry.head))
    if ready:
        step.tell("ready")
