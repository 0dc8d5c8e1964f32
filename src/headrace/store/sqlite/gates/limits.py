"""Limits: how many jobs may start in a time. Jobs over the limit wait in the store.

Each limit has an `Account` of what it has let through: see `accounts.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.constraints import QUEUE_LIMIT, Limit
from headrace.store.sqlite.change import Change
from headrace.store.sqlite.entries import (
    PASSED,
    QUEUE_PASSED,
    blocked_at,
    limit_gate,
)
from headrace.store.sqlite.gates.accounts import has_room, load
from headrace.store.sqlite.rows import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.entries import Entry

_START = """
    INSERT INTO starts (queue, name, at_ms, count, expires_ms) VALUES {rows}
    ON CONFLICT DO UPDATE SET count = count + excluded.count,
        expires_ms = max(expires_ms, excluded.expires_ms)"""
_OPEN = "SELECT name FROM limits WHERE queue = ? AND opens_ms <= ? ORDER BY opens_ms"


def pass_through(change: Change, entries: Sequence[Entry]) -> None:
    """Let waiting jobs through their limits. A job without room is blocked at one limit, and counts
    at none of the others."""
    limited = [e for e in entries if e.state == "waiting" and e.constraints.limits]
    if not limited:
        return
    accounts = load(change, (limit for entry in limited for limit in entry.constraints.limits))
    for entry in limited:
        limits = _here(entry)
        closed = next(
            (x for x in limits if accounts[x.name].has_blocked or not has_room(change, x)), None
        )
        if closed is None:
            _let_through(change, entry, limits)
        else:
            _block(change, entry, closed)


def _here(entry: Entry) -> Sequence[Limit]:
    """The limits that a job has to pass now: those of its task, then it enters the lane of its
    task, then that of its queue. Without such a lane, all together."""
    limits = entry.constraints.limits
    if not entry.constraints.task_lane:
        return limits
    return [
        limit
        for limit in limits
        if (limit.name == QUEUE_LIMIT) == bool(entry.task_lane) and not entry.flags & _flag(limit)
    ]


def _flag(limit: Limit) -> int:
    """The flag of jobs that this limit has let through."""
    return QUEUE_PASSED if limit.name == QUEUE_LIMIT else PASSED


def _let_through(change: Change, entry: Entry, limits: Sequence[Limit]) -> None:
    for limit in limits:
        account = change.accounts[limit.name]
        account.passed += 1
        account.changed = True
        _spend(change, limit)
        entry.flags |= _flag(limit)


def _spend(change: Change, limit: Limit) -> None:
    """Take one step of the pace that follows a burst."""
    if limit.burst:
        account = change.accounts[limit.name]
        spent = max(account.spent_until_ms, change.now_ms)
        account.spent_until_ms = spent + limit.window_ms / limit.most


def _block(change: Change, entry: Entry, limit: Limit) -> None:
    entry.block_at(limit_gate(limit.name), limit.name)
    account = change.accounts[limit.name]
    account.has_blocked = account.changed = True


def block_at(change: Change, entry: Entry, name: str) -> bool:
    """Block a job at one of its limits; False if it has no such limit."""
    limit = next((x for x in entry.constraints.limits if x.name == name), None)
    if limit is None:
        return False
    load(change, entry.constraints.limits)
    give_back(change, [entry])
    _block(change, entry, limit)
    return True


def give_back(change: Change, entries: Iterable[Entry]) -> None:
    """Undo the counts of jobs that were let through and did not begin."""
    unbegun = [entry for entry in entries if entry.flags & (PASSED | QUEUE_PASSED)]
    accounts = load(change, (limit for entry in unbegun for limit in entry.constraints.limits))
    for entry in unbegun:
        passed, entry.flags = entry.flags, entry.flags & ~(PASSED | QUEUE_PASSED)
        for limit in entry.constraints.limits:
            if not passed & _flag(limit):
                continue
            account = accounts[limit.name]
            account.passed = max(0, account.passed - 1)
            account.changed = True
            if limit.burst:
                account.spent_until_ms -= limit.window_ms / limit.most


def begin(change: Change, entry: Entry) -> str:
    """Count the start of a job, or name the limit that does not allow it now."""
    limits = entry.constraints.limits
    accounts = load(change, limits)
    # If it has begun before, with a worker that is gone, this is one more start.
    fresh = [limit for limit in limits if not entry.flags & _flag(limit)]
    if closed := next((limit for limit in fresh if not has_room(change, limit)), None):
        return closed.name
    for limit in fresh:
        _spend(change, limit)
    starts = []
    for limit in limits:
        account = accounts[limit.name]
        account.changed = True
        if entry.flags & _flag(limit):
            account.passed = max(0, account.passed - 1)
        for window in account.started:
            account.started[window] += 1
        expires = change.now_ms + limit.window_ms + 1
        starts.append((change.number, limit.name, change.now_ms, 1, expires))
    run_rows(change.connection, _START, starts)
    entry.flags &= ~(PASSED | QUEUE_PASSED)
    return ""


def open_gates(change: Change, most: int) -> list[Entry]:
    """Move up to `most` jobs whose limit has room again: to the workers, or to another limit."""
    moved: list[Entry] = []
    for (name,) in change.connection.execute(_OPEN, (change.number, change.now_ms)).fetchall():
        if len(moved) < most:
            moved += _open(change, name, most - len(moved))
    return moved


def _open(change: Change, name: str, most: int) -> list[Entry]:
    blocked = blocked_at(change.connection, change.number, limit_gate(name), most + 1)
    theirs = [limit for entry in blocked for limit in entry.constraints.limits]
    # The account is needed even if no job is blocked at the limit, or has it any more.
    accounts = load(change, [Limit(name, 1, 1), *theirs])
    moved: list[Entry] = []
    for entry in blocked[:most]:
        limits = _here(entry)
        closed = next(
            (
                limit
                for limit in limits
                if (limit.name != name and accounts[limit.name].has_blocked)
                or not has_room(change, limit)
            ),
            None,
        )
        if closed is not None and closed.name == name:
            break
        entry.be_ready(change.now_ms)
        if closed is None:
            _let_through(change, entry, limits)
        else:
            _block(change, entry, closed)
        moved.append(entry)
    accounts[name].has_blocked = len(moved) < len(blocked)
    accounts[name].changed = True
    return moved


def leave(change: Change, entries: Iterable[Entry]) -> None:
    """Have limits looked at again at which these jobs, now gone, were blocked."""
    names = {entry.reason for entry in entries if entry.gate == limit_gate(entry.reason)}
    if names:
        accounts = load(change, [Limit(name, 1, 1) for name in names])
        for name in names:
            accounts[name].changed = True
