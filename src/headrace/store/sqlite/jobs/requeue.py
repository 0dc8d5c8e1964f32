"""Jobs that come back from a worker and have not ended: to run later, to be held, or released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.job.envelope import FORMATS, with_runner
from headrace.core.queue_names import group_source
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import LADEN
from headrace.store.sqlite.gates import lanes, limits, pauses, routing
from headrace.store.sqlite.gates.due_times import due_after, next_due, notify_due
from headrace.store.sqlite.jobs import completion, pruning
from headrace.store.sqlite.rows import run_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.delivery import LeasedDelivery, Receipt
    from headrace.core.job.outcome import Held, Released, Retried
    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_RETRY = f"""
    WITH retried (id, place, state, position, time_ms, history) AS (VALUES {{rows}})
    UPDATE jobs SET id = retried.place, state = retried.state, position = retried.position,
        time_ms = retried.time_ms, history = retried.history, count = 0, owner = '',
        flags = flags | {LADEN}
    FROM retried WHERE jobs.id = retried.id"""
# A running job keeps the position that it was fetched from, before all jobs not yet fetched, and
# the time at which it became ready.
_HAND_BACK = """
    WITH released (id, place) AS (VALUES {rows})
    UPDATE jobs SET id = released.place, state = 'waiting', time_ms = ready_ms, count = count - 1,
        owner = ''
    FROM released WHERE jobs.id = released.id"""
# The same among the jobs of another runner, which the envelope then names.
_MOVE = """
    WITH released (id, place, runner, envelope) AS (VALUES {rows})
    UPDATE jobs SET id = released.place, state = 'waiting', time_ms = ready_ms, count = count - 1,
        owner = '', runner = released.runner, envelope = released.envelope
    FROM released WHERE jobs.id = released.id"""
_OWNED = "SELECT id FROM jobs WHERE queue = ? AND state = 'running' AND owner = ?"


def retry(
    change: Change,
    settled: Sequence[tuple[LeasedDelivery, Retried]],
    attached: dict[Receipt, Entry],
) -> None:
    """Schedule jobs to run again after their delay."""
    delays = [outcome.delay_ms for _, outcome in settled]
    later = [delay for delay in delays if delay > 0]
    if later:
        earliest = next_due(change.connection, change.number)
        notify_due(change, due_after(change.now_ms, min(later)), earliest)
    if len(later) < len(delays):
        change.notify("ready")
    _retry_plain(change, [each for each in settled if each[0].receipt not in attached])
    if attached:
        constrained = [(attached[d.receipt], o) for d, o in settled if d.receipt in attached]
        _retry_attached(change, constrained)


def _retry_plain(change: Change, settled: Sequence[tuple[LeasedDelivery, Retried]]) -> None:
    if not settled:
        return
    rows: list[tuple[Any, ...]] = []
    for place, (delivery, outcome) in enumerate(settled, start=change.new_numbers(len(settled))):
        if outcome.delay_ms > 0:
            due = due_after(change.now_ms, outcome.delay_ms)
            rows.append((delivery.receipt, place, "scheduled", 0, due, outcome.history))
        else:
            rows.append((delivery.receipt, place, "waiting", place, change.now_ms, outcome.history))
    run_rows(change.connection, _RETRY, rows)


def _retry_attached(change: Change, settled: Sequence[tuple[Entry, Retried]]) -> None:
    if not settled:
        return
    limits.give_back(change, [entry for entry, _ in settled])
    lanes.leave_task(change, [entry for entry, _ in settled])
    for entry, outcome in settled:
        if outcome.delay_ms > 0:
            entry.state, entry.position = "scheduled", 0
            entry.time_ms = due_after(change.now_ms, outcome.delay_ms)
            # A lane of width 1 keeps its order through retries; in a wider one others go on.
            if entry.constraints.width > 1:
                lanes.leave(change, [entry])
    routing.decide(change, [entry for entry, outcome in settled if outcome.delay_ms <= 0])
    _save(change, settled)


def hold(change: Change, settled: Sequence[tuple[LeasedDelivery, Held]]) -> None:
    """Block jobs at the gates that keep them from starting."""
    found = entries.by_ids(change.connection, [delivery.receipt for delivery, _ in settled])
    held = [(found[delivery.receipt], outcome) for delivery, outcome in settled]
    pauses.hold(change, held)
    _save(change, held)
    if any(entry.state == "waiting" for entry, _ in held):
        change.notify("ready")


def _save(change: Change, settled: Sequence[tuple[Entry, Retried | Held]]) -> None:
    first = change.new_numbers(len(settled))
    placed = [
        (entry, place, outcome.history)
        for place, (entry, outcome) in enumerate(settled, start=first)
    ]
    entries.save_settled(change.connection, placed)


def hand_back(change: Change, receipts: Sequence[Receipt]) -> None:
    """Return running jobs to their former positions, as if they had not been delivered."""
    first = change.new_numbers(len(receipts))
    rows = [(receipt, place) for place, receipt in enumerate(receipts, start=first)]
    run_rows(change.connection, _HAND_BACK, rows)
    change.notify("ready")


def release(change: Change, settled: Sequence[tuple[LeasedDelivery, Released]]) -> None:
    """Hand back jobs, each to the runner that its outcome names."""
    back: list[Receipt] = []
    moved: list[tuple[Any, ...]] = []
    # Events are not kept apart by runner.
    any_runner = group_source(change.queue) is not None
    for place, (delivery, outcome) in enumerate(settled, change.new_numbers(len(settled))):
        if any_runner or not outcome.runner:
            back.append(delivery.receipt)
        else:
            envelope = with_runner(delivery.envelope, outcome.runner)
            moved.append((delivery.receipt, place, FORMATS[outcome.runner], envelope))
    if moved:
        run_rows(change.connection, _MOVE, moved)
        change.notify("ready")
    if back:
        hand_back(change, back)


def hand_back_all(change: Change, owner: str) -> None:
    """Hand back all jobs of the queue that `owner` holds."""
    if not change.number:
        pruning.forget_looks(change)
        return
    completion.cancel(change, entries.cancelling(change.connection, change.number, owner=owner))
    found = change.connection.execute(_OWNED, (change.number, owner)).fetchall()
    if found:
        hand_back(change, [id for (id,) in found])
