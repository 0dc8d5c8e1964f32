"""What people ask of workers: to pause queues and tasks, and to cancel jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.outcome import task_gate
from headrace.core.job.state import State
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import CANCELLING, pause_gate
from headrace.store.sqlite.gates import limits, routing
from headrace.store.sqlite.gates.flows import ending_of
from headrace.store.sqlite.jobs import completion
from headrace.store.sqlite.rows import queue_id, select_rows
from headrace.store.values import Control

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
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
_RESULTS = """
    WITH named (queue, job_id, now_ms) AS (VALUES {rows})
    SELECT results.job_id, results.verdict FROM named JOIN results
        ON results.queue = named.queue AND results.job_id = named.job_id
    WHERE results.expires_ms > named.now_ms"""


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
        limits.pass_through(change, held)
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
            if entry.gate not in first_places:
                line = (change.number, entry.gate)
                [(first,)] = change.connection.execute(_FIRST_PLACE, line).fetchall()
                first_places[entry.gate] = first
            first_places[entry.gate] -= 1
            entry.position = first_places[entry.gate]
        elif outcome.gate in paused:
            limits.give_back(change, [entry])
            entry.block_at(pause_gate(outcome.gate.removeprefix(task_gate(""))), outcome.gate)


def cancel(change: Change, job_ids: Sequence[JobId], *, running: bool) -> list[State | None]:
    """End jobs that are not running; if `running`, ask workers to end the others."""
    found = entries.by_job_ids(change.connection, change.number, job_ids)
    unknown = [(change.number, job_id, change.now_ms) for job_id in job_ids if job_id not in found]
    ended = select_rows(change.connection, _RESULTS, unknown)
    states: dict[JobId, State] = {job_id: ending_of(verdict).state for job_id, verdict in ended}
    asked = [job_id for job_id, entry in found.items() if running and entry.state == "running"]
    if asked:
        entries.flag(change.connection, change.number, asked, CANCELLING)
        change.notify("control", asked)
    stopped = [entry for entry in found.values() if entry.state not in ("running", "dead")]
    completion.cancel(change, stopped)
    for job_id, entry in found.items():
        states[job_id] = (
            State(entry.state) if entry.state in ("running", "dead") else State.CANCELLED
        )
    return [states.get(job_id) for job_id in job_ids]
