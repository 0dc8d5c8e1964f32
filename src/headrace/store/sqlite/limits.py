"""Limits: how many jobs may start in a time. Those over it stand in line in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.job.constraints import Limit
from headrace.store.sqlite.accounts import has_room, of_limits
from headrace.store.sqlite.entries import PASSED, in_line, limit_gate
from headrace.store.sqlite.rows import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.change import Change
    from headrace.store.sqlite.entries import Entry

_START = """
    INSERT INTO starts (queue, name, at_ms, count, expires_ms) VALUES {rows}
    ON CONFLICT DO UPDATE SET count = count + excluded.count,
        expires_ms = max(expires_ms, excluded.expires_ms)"""
_OPEN = "SELECT name FROM limits WHERE queue = ? AND opens_ms <= ? ORDER BY opens_ms"


def pass_through(change: Change, entries: Sequence[Entry]) -> None:
    """Let waiting jobs through their limits; those that must wait stand in line at one, and hold
    nothing at the others."""
    limited = [e for e in entries if e.state == "waiting" and e.constraints.limits]
    if not limited:
        return
    accounts = of_limits(change, (limit for entry in limited for limit in entry.constraints.limits))
    for entry in limited:
        closed = next(
            (
                x
                for x in entry.constraints.limits
                if accounts[x.name].has_line or not has_room(change, x)
            ),
            None,
        )
        if closed is None:
            _let_through(change, entry)
        else:
            _stand_in_line(change, entry, closed)


def _let_through(change: Change, entry: Entry) -> None:
    for limit in entry.constraints.limits:
        account = change.accounts[limit.name]
        account.passed += 1
        account.changed = True
        _spend(change, limit)
    entry.flags |= PASSED


def _spend(change: Change, limit: Limit) -> None:
    """Take one change of the pace that follows a burst."""
    if limit.burst:
        account = change.accounts[limit.name]
        spent = max(account.spent_until_ms, change.now_ms)
        account.spent_until_ms = spent + limit.window_ms / limit.most


def _stand_in_line(change: Change, entry: Entry, limit: Limit) -> None:
    entry.stand_at(limit_gate(limit.name), limit.name)
    account = change.accounts[limit.name]
    account.has_line = account.changed = True


def stand_at(change: Change, entry: Entry, name: str) -> bool:
    """Have a job that may not begin wait at one of its limits; False if it has no such limit."""
    limit = next((x for x in entry.constraints.limits if x.name == name), None)
    if limit is None:
        return False
    of_limits(change, entry.constraints.limits)
    give_back(change, [entry])
    _stand_in_line(change, entry, limit)
    return True


def give_back(change: Change, entries: Iterable[Entry]) -> None:
    """Undo what was counted of jobs that were let through and did not begin."""
    unbegun = [entry for entry in entries if entry.flags & PASSED]
    accounts = of_limits(change, (limit for entry in unbegun for limit in entry.constraints.limits))
    for entry in unbegun:
        entry.flags &= ~PASSED
        for limit in entry.constraints.limits:
            account = accounts[limit.name]
            account.passed = max(0, account.passed - 1)
            account.changed = True
            if limit.burst:
                account.spent_until_ms -= limit.window_ms / limit.most


def begin(change: Change, entry: Entry) -> str:
    """Count the start of a job, or name the limit that does not allow it now."""
    limits = entry.constraints.limits
    accounts = of_limits(change, limits)
    if not entry.flags & PASSED:
        # It has begun before, and its worker is gone: this is one more start.
        if closed := next((limit for limit in limits if not has_room(change, limit)), None):
            return closed.name
        for limit in limits:
            _spend(change, limit)
    starts = []
    for limit in limits:
        account = accounts[limit.name]
        account.changed = True
        if entry.flags & PASSED:
            account.passed = max(0, account.passed - 1)
        for window in account.started:
            account.started[window] += 1
        expires = change.now_ms + limit.window_ms + 1
        starts.append((change.number, limit.name, change.now_ms, 1, expires))
    run_rows(change.connection, _START, starts)
    entry.flags &= ~PASSED
    return ""


def open_gates(change: Change, most: int) -> list[Entry]:
    """Up to `most` jobs that go on, or to the line of another limit, because theirs has room
    again."""
    moved: list[Entry] = []
    for (name,) in change.connection.execute(_OPEN, (change.number, change.now_ms)).fetchall():
        if len(moved) < most:
            moved += _open(change, name, most - len(moved))
    return moved


def _open(change: Change, name: str, most: int) -> list[Entry]:
    line = in_line(change.connection, change.number, limit_gate(name), most + 1)
    theirs = [limit for entry in line for limit in entry.constraints.limits]
    # The account is needed even if nobody is left in its line, or knows the limit any more.
    accounts = of_limits(change, [Limit(name, 1, 1), *theirs])
    moved: list[Entry] = []
    for entry in line[:most]:
        closed = next(
            (
                limit
                for limit in entry.constraints.limits
                if (limit.name != name and accounts[limit.name].has_line)
                or not has_room(change, limit)
            ),
            None,
        )
        if closed is not None and closed.name == name:
            break
        entry.be_ready(change.now_ms)
        if closed is None:
            _let_through(change, entry)
        else:
            _stand_in_line(change, entry, closed)
        moved.append(entry)
    accounts[name].has_line = len(moved) < len(line)
    accounts[name].changed = True
    return moved


def leave_line(change: Change, entries: Iterable[Entry]) -> None:
    """See to it that those behind jobs which are gone from the line of a limit are looked at."""
    names = {entry.reason for entry in entries if entry.gate == limit_gate(entry.reason)}
    if names:
        accounts = of_limits(change, [Limit(name, 1, 1) for name in names])
        for name in names:
            accounts[name].changed = True
