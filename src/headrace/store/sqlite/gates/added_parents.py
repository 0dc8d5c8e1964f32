"""Jobs that a running job adds to those that others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.parcel import Child
from headrace.store.sqlite.rows import select_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.flow_values import Added, Addition
    from headrace.store.sqlite.change import Change

_CHILDREN = """
    SELECT CAST(child_queue AS TEXT), child, runs_anyway FROM children
    WHERE queue = ? AND parent = ? AND known_as = parent"""
_ARRIVED = "SELECT arrived FROM parents WHERE queue = ? AND child = ? AND parent = ?"
_ADD = """
    INSERT INTO parents (queue, child, parent, added_by, place)
    SELECT :queue, :child, :parent, :added_by, 1 + max(place) FROM parents
    WHERE queue = :queue AND child = :child"""
_ONE_MORE = "UPDATE joins SET remaining = remaining + 1 WHERE queue = ? AND child = ?"
_CONFIRM = """
    UPDATE parents SET added_by = x'' WHERE queue = ? AND child = ? AND parent = ?"""
_ANY_OPEN = "SELECT 1 FROM parents WHERE added_by != x'' LIMIT 1"
_DROP = """
    DELETE FROM parents WHERE id IN (
        WITH named (queue, child, parent) AS (VALUES {rows})
        SELECT added.id FROM named JOIN parents AS added ON added.queue = named.queue
            AND added.child = named.child AND added.added_by = named.parent
        WHERE added.added_by != x'' AND NOT arrived)
    RETURNING child"""
_ONE_LESS = "UPDATE joins SET remaining = remaining - 1 WHERE queue = ? AND child = ?"


def extend_flow(change: Change, job_id: JobId) -> list[Child]:
    """The jobs that wait for this one."""
    found = change.connection.execute(_CHILDREN, (change.number, job_id)).fetchall()
    return [Child(queue, child, bool(anyway)) for queue, child, anyway in found]


def add_parents(change: Change, additions: Sequence[Addition]) -> list[Added]:
    """See `headrace.store.contract.Store.add_parents`."""
    return [_add(change, each) for each in additions]


def _add(change: Change, addition: Addition) -> Added:
    child = (change.number, addition.child)
    adding = change.connection.execute(_ARRIVED, (*child, addition.added_by)).fetchone()
    if adding is None or adding[0]:
        return "gone"
    known = change.connection.execute(_ARRIVED, (*child, addition.parent)).fetchone()
    if known is not None:
        return "ended" if known[0] else "waits"
    change.connection.execute(
        _ADD,
        {
            "queue": change.number,
            "child": addition.child,
            "parent": addition.parent,
            "added_by": addition.added_by,
        },
    )
    change.connection.execute(_ONE_MORE, child)
    return "waits"


def confirm_parents(change: Change, additions: Sequence[Addition]) -> None:
    for each in additions:
        change.connection.execute(_CONFIRM, (change.number, each.child, each.parent))


def drop_unconfirmed(change: Change, ended: Sequence[tuple[int, JobId, JobId]]) -> None:
    """Jobs that these parents (queue, child, parent) would have added, if they had not died in
    between, do not count."""
    if change.connection.execute(_ANY_OPEN).fetchone() is None:
        return
    for (child,) in select_rows(change.connection, _DROP, ended):
        change.connection.execute(_ONE_LESS, (change.number, child))
