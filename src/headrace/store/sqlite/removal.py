"""Removing queues, whatever their names are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.store.oddities import readable
from headrace.store.sqlite import groups

if TYPE_CHECKING:
    from headrace.store.sqlite.change import Change

_NAMES = "SELECT id, CAST(name AS BLOB) FROM queues WHERE namespace = ?"
_HELD = """
    SELECT (SELECT count(*) FROM jobs WHERE queue = :number)
        + (SELECT count(*) FROM topic_events WHERE log = :number)"""
_OF_LOG = [f"DELETE FROM {table} WHERE log = ?" for table in ("topic_events", "topics")]
_GROUPS = "SELECT queue FROM topic_groups WHERE log = ?"
_NAMED = [
    f"DELETE FROM {table} WHERE namespace = ? AND queue = ?" for table in ("pauses", "reclaims")
]
_FORGET = "DELETE FROM queues WHERE id = ?"


def remove(change: Change, name: str, *, force: bool) -> int | None:
    """See `headrace.store.contract.Store.remove`."""
    found = change.connection.execute(_NAMES, (change.namespace,)).fetchall()
    number = next((id for id, raw in found if readable(raw) == name), None)
    if number is None:
        return None
    [(held,)] = change.connection.execute(_HELD, {"number": number}).fetchall()
    if held and not force:
        return int(held)
    for (group,) in change.connection.execute(_GROUPS, (number,)).fetchall():
        _drop(change, group)
    for drop in _OF_LOG:
        change.connection.execute(drop, (number,))
    _drop(change, number)
    for drop in _NAMED:
        change.connection.execute(drop, (change.namespace, name))
    change.tell("control")
    return 0


def _drop(change: Change, number: int) -> None:
    change.number = number
    groups.drop_rows(change)
    change.connection.execute(_FORGET, (number,))
