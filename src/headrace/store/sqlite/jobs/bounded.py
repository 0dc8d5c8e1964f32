"""Adding jobs to a queue that has a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.queue_values import NO_ROOM
from headrace.store.sqlite import entries
from headrace.store.sqlite.jobs import completion
from headrace.store.sqlite.jobs.constrained import SENT, append_constrained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.core.job.parcel import Parcel
    from headrace.store.queue_values import QueueBound
    from headrace.store.sqlite.change import Change

# Each state has an index of its own.
_LIVE = " + ".join(
    f"(SELECT count(*) FROM jobs WHERE queue = :queue AND state = '{state}')"
    for state in ("waiting", "scheduled", "running", "blocked")
)
_NEXT_PRIORITY = """
    SELECT priority FROM jobs WHERE queue = ? AND runner = ? AND state = 'waiting' AND priority > ?
    ORDER BY priority LIMIT 1"""
_OLDEST = """
    SELECT position, id FROM jobs
    WHERE queue = ? AND runner = ? AND priority = ? AND state = 'waiting'
        AND (flow = '' OR flow != ?)
    ORDER BY position LIMIT 1"""
_RUNNERS = (1, 2, 3)


def append_bounded(
    change: Change, parcels: Sequence[Parcel], *, may_exist: bool, bound: QueueBound
) -> dict[int, JobId]:
    """As `insert.append`, within a bound."""
    number = change.get_or_create_number()
    room, per_key = None, bound.most_per_key
    if bound.most:
        [(live,)] = change.connection.execute(f"SELECT {_LIVE}", {"queue": number}).fetchall()
        room = max(0, bound.most - live)
    refused = append_constrained(
        change, parcels, may_exist=may_exist, room=room, most_per_key=per_key
    )
    if not bound.drops_oldest:
        return refused
    stuck: set[str] = set()
    # One by one: a job that was just added may have to go for the next.
    for at in [at for at, standing in refused.items() if standing == NO_ROOM]:
        flow = parcels[at].constraints.flow
        if flow in stuck or not _drop_oldest(change, flow):
            stuck.add(flow)
            continue
        again = append_constrained(
            change, [parcels[at]], may_exist=may_exist, room=1, most_per_key=per_key
        )
        refused.pop(at)
        if again:
            # One of those before it has its name.
            refused[at] = again[0]
    _put_sent_first(change)
    return refused


def _put_sent_first(change: Change) -> None:
    """Facts of new jobs come before those of jobs that went for them: see `Change.sent`."""
    if change.facts is not None:
        kinds = frozenset(SENT.values())
        new = [fact for fact in change.facts if fact[0] in kinds]
        change.facts = new + [fact for fact in change.facts if fact[0] not in kinds]
        change.sent = len(new)


def _drop_oldest(change: Change, flow: str) -> bool:
    """Cancel the job that has waited longest among those of the lowest priority, for a job of this
    flow; whether there was one."""
    oldest = [found for runner in _RUNNERS if (found := _oldest(change, runner, flow))]
    if not oldest:
        return False
    _, _, id = min(oldest)
    completion.cancel(change, [entries.by_ids(change.connection, [id])[id]])
    return True


def _oldest(change: Change, runner: int, flow: str) -> tuple[int, int, int] | None:
    """Priority, position and row of the job that goes first, of those outside of the flow: it is
    stored as a whole or not at all."""
    priority, connection = -1, change.connection
    while found := connection.execute(_NEXT_PRIORITY, (change.number, runner, priority)).fetchone():
        (priority,) = found
        oldest = connection.execute(_OLDEST, (change.number, runner, priority, flow)).fetchone()
        if oldest is not None:
            return priority, *oldest
    return None
