"""Batches that gather: jobs of one name wait at a gate, and go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.core.job.constraints import BATCH_GATE, Gathering
from headrace.store.contract import JobSnapshot
from headrace.store.sqlite import entries
from headrace.store.sqlite.entries import BATCHED, batch_gate, json_of
from headrace.store.values import Gathered

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

# How far the times of two processes may differ that nobody has set.
_CLOCKS_DIFFER_MS = 1000

_AT_GATE = "jobs WHERE queue = :queue AND gate = :gate AND gate != ''"
_GATHERED = f"""
    SELECT (SELECT count(*) FROM {_AT_GATE}),
        (SELECT CAST(time_ms AS INTEGER) FROM {_AT_GATE} ORDER BY position LIMIT 1),
        (SELECT CAST(time_ms AS INTEGER) FROM {_AT_GATE} ORDER BY position DESC LIMIT 1)"""
_COME_NOW = f"""
    UPDATE jobs SET time_ms = :now_ms WHERE id IN (SELECT id FROM {_AT_GATE})"""
_NAME = "UPDATE jobs SET batch = ? WHERE id IN (SELECT value FROM json_each(?))"
_OPENS = "SELECT opens_ms FROM gatherings WHERE queue = ? AND name = ?"
_ARM = "INSERT OR REPLACE INTO gatherings (queue, name, opens_ms) VALUES (?, ?, ?)"
_FORGET = "DELETE FROM gatherings WHERE queue = ? AND name = ?"
_OPEN = "SELECT name FROM gatherings WHERE queue = ? AND opens_ms <= ? ORDER BY opens_ms LIMIT 100"
_NEXT = "SELECT min(opens_ms) FROM gatherings WHERE queue = ?"


def gather(change: Change, arrived: Iterable[Entry], *, at_once: bool = False) -> None:
    """Block waiting jobs that gather; `at_once` if they have waited enough. Not written yet: their
    batches are looked at when the change is."""
    for entry in arrived:
        gathering = entry.constraints.gathers
        if gathering is None or entry.state != "waiting":
            continue
        entry.block_at(batch_gate(gathering.name), gathering.name)
        entry.time_ms = change.now_ms
        _, before = change.grown.get(gathering.name, (gathering, False))
        change.grown[gathering.name] = gathering, at_once or before


def release(change: Change) -> list[Entry]:
    """Let batches go to which jobs came, if they are whole or it is time."""
    grown, change.grown = change.grown, {}
    moved: list[Entry] = []
    for gathering, at_once in grown.values():
        moved += _look(change, gathering, at_once)
    return moved


def open_gates(change: Change, most: int) -> list[Entry]:
    """Let batches go for which it is time, until at least `most` jobs have moved."""
    moved: list[Entry] = []
    for (name,) in change.connection.execute(_OPEN, (change.number, change.now_ms)).fetchall():
        if len(moved) < most:
            head = entries.heads(change.connection, change.number, [batch_gate(name)])
            first = head.get(batch_gate(name))
            if first is None:
                change.connection.execute(_FORGET, (change.number, name))
            else:
                # Nobody knows any more what one waits for whose constraints cannot be read.
                gathering = first.constraints.gathering or Gathering(name, 1, 0)
                moved += _look(change, gathering, False)
    return moved


def next_opening(connection: sqlite3.Connection, queue: int) -> int | None:
    """When the next batch may go."""
    [(opens,)] = connection.execute(_NEXT, (queue,)).fetchall()
    return opens  # type: ignore[no-any-return]


def with_gathered(
    connection: sqlite3.Connection, queue: int, snapshot: JobSnapshot | None
) -> JobSnapshot | None:
    """The snapshot of a job, with the batch if it gathers."""
    if snapshot is None or snapshot.state != "blocked" or snapshot.reason[:6] != BATCH_GATE:
        return snapshot
    return replace(snapshot, gathered=find(connection, queue, snapshot.reason))


def find(connection: sqlite3.Connection, queue: int, name: str) -> Gathered | None:
    """What has gathered under a name."""
    at_gate = {"queue": queue, "gate": batch_gate(name)}
    [(count, first_ms, last_ms)] = connection.execute(_GATHERED, at_gate).fetchall()
    return Gathered(count, first_ms, last_ms) if count else None


def _look(change: Change, gathering: Gathering, at_once: bool) -> list[Entry]:
    """Let as many whole batches go as there are, and what is left if it is time for it."""
    moved: list[Entry] = []
    goes_ms = change.now_ms
    while gathered := find(change.connection, change.number, gathering.name):
        goes_ms = change.now_ms if at_once else _goes_ms(change, gathering, gathered)
        if gathered.count < gathering.most and goes_ms > change.now_ms:
            break
        moved += _release_first(change, gathering)
    _arm(change, gathering.name, goes_ms if gathered else None)
    return moved


def _goes_ms(change: Change, gathering: Gathering, gathered: Gathered) -> int:
    if gathered.last_ms <= change.now_ms + _CLOCKS_DIFFER_MS:
        return gathering.goes_ms(gathered.first_ms, gathered.last_ms)
    # The clock was set back: how long ago they came is unknown. They count as having come now.
    at_gate = {"queue": change.number, "gate": batch_gate(gathering.name), "now_ms": change.now_ms}
    change.connection.execute(_COME_NOW, at_gate)
    return gathering.goes_ms(change.now_ms, change.now_ms)


def _release_first(change: Change, gathering: Gathering) -> list[Entry]:
    gate = batch_gate(gathering.name)
    batch = entries.blocked_at(change.connection, change.number, gate, gathering.most)
    first = change.new_numbers(len(batch))
    for place, entry in enumerate(batch, start=first):
        entry.be_ready(change.now_ms)
        entry.position = place
        entry.flags |= BATCHED
    entries.save(change.connection, batch)
    change.connection.execute(_NAME, (first, json_of([entry.id for entry in batch])))
    return batch


def _arm(change: Change, name: str, goes_ms: int | None) -> None:
    """Note when to look at a batch again. A time that is too early is left: with each job that
    comes, the time moves on."""
    before = change.connection.execute(_OPENS, (change.number, name)).fetchone()
    if goes_ms is None:
        if before is not None:
            change.connection.execute(_FORGET, (change.number, name))
    elif before is None or not change.now_ms < before[0] <= goes_ms:
        change.connection.execute(_ARM, (change.number, name, goes_ms))
        change.notify("due")
