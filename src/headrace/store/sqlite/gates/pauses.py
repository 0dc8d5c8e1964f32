"""Paused queues and tasks, and jobs that are held because of them or of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.constraints import QUEUE_LIMIT
from headrace.core.job.outcome import task_gate
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import pause_gate
from headrace.store.sqlite.gates import lanes, limits, routing
from headrace.store.sqlite.rows import queue_id
from headrace.store.values import Control

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.outcome import Held
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_RELEASED_TOGETHER = 1000

_PAUSE = "INSERT OR IGNORE INTO pauses (namespace, queue, task) VALUES (?, ?, ?)"
_RESUME = "DELETE FROM pauses WHERE namespace = ? AND queue = ? AND task = ?"
_PAUSED = "SELECT task FROM pauses WHERE namespace = ? AND queue = ?"
_CANCELLING = "SELECT job_id FROM jobs WHERE queue = ? AND flags & 1 AND state = 'running'"
_FIRST_PLACE = """
    SELECT coalesce(min(position), 0) FROM jobs WHERE queue = ? AND gate = ? AND gate != ''"""


def pause(change: Change, task: str) -> None:
    change.connection.execute(_PAUSE, (change.namespace, change.queue, task))
    change.notify("control")


def resume(change: Change, task: str) -> None:
    """Undo `pause`, and let jobs go on that a worker has held because of it."""
    change.connection.execute(_RESUME, (change.namespace, change.queue, task))
    while task and (held := _held_at(change, task)):
        for entry in held:
            entry.be_ready(change.now_ms)
        # They keep their positions, before all jobs that wait now.
        routing.pass_gates(change, held, gathered=True)
        entries.save(change.connection, held)
        routing.notify_ready(change, held)
    change.notify("ready")
    change.notify("control")


def _held_at(change: Change, task: str) -> list[Entry]:
    gate = pause_gate(task)
    return entries.blocked_at(change.connection, change.number, gate, _RELEASED_TOGETHER)


def _paused(connection: sqlite3.Connection, namespace: str, queue: str) -> set[str]:
    return {task for (task,) in connection.execute(_PAUSED, (namespace, queue))}


def control(connection: sqlite3.Connection, namespace: str, *, queue: str) -> Control:
    paused = _paused(connection, namespace, queue)
    number = queue_id(connection, namespace, queue)
    cancelling = connection.execute(_CANCELLING, (number,))
    return Control(
        "" in paused, frozenset(paused - {""}), tuple(job_id for (job_id,) in cancelling)
    )


def hold(change: Change, held: Sequence[tuple[Entry, Held]]) -> None:
    """Block running jobs at gates; at limits before all others. A job whose gate is open by now, or
    is not its own, waits for a worker at its old position. Not written yet."""
    paused = {
        task_gate(task) for task in _paused(change.connection, change.namespace, change.queue)
    }
    first_places: dict[str, int] = {}
    # From the last to the first, because each is put in front of the others.
    for entry, outcome in reversed(held):
        entry.be_ready(change.now_ms)
        if limits.block_at(change, entry, outcome.gate):
            if outcome.gate != QUEUE_LIMIT:
                lanes.leave_task(change, [entry])
            if entry.gate not in first_places:
                line = (change.number, entry.gate)
                [(first,)] = change.connection.execute(_FIRST_PLACE, line).fetchall()
                first_places[entry.gate] = first
            first_places[entry.gate] -= 1
            entry.position = first_places[entry.gate]
        elif outcome.gate in paused:
            limits.give_back(change, [entry])
            lanes.leave_task(change, [entry])
            entry.block_at(pause_gate(outcome.gate.removeprefix(task_gate(""))), outcome.gate)
