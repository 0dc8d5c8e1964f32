"""Limits: how many jobs may start in a time. Jobs over the limit wait in the store.

Each limit has an `Account` of what it has let through: counted in a change, written at its end.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from headrace.core.job.constraints import Limit
from headrace.store.sqlite.change import Account, Change
from headrace.store.sqlite.entries import PASSED, blocked_at, heads, limit_gate
from headrace.store.sqlite.rows import run_rows, select_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.store.sqlite.entries import Entry

_LOAD = """
    WITH named (queue, name, gate) AS (VALUES {rows})
    SELECT named.name, coalesce(limits.passed, 0), coalesce(limits.spent_until_ms, 0),
        limits.opens_ms, EXISTS (
            SELECT 1 FROM jobs
            WHERE jobs.queue = named.queue AND jobs.gate = named.gate AND jobs.gate != '')
    FROM named LEFT JOIN limits ON limits.queue = named.queue AND limits.name = named.name"""
_STARTED = """
    WITH named (queue, name, window_ms, since_ms) AS (VALUES {rows})
    SELECT named.name, named.window_ms, (
        SELECT coalesce(sum(count), 0) FROM starts
        WHERE queue = named.queue AND name = named.name AND at_ms >= named.since_ms)
    FROM named"""
_OLDEST = """
    SELECT at_ms, count FROM starts WHERE queue = ? AND name = ? AND at_ms >= ?
    ORDER BY at_ms LIMIT ?"""
_KEEP = """
    INSERT OR REPLACE INTO limits (queue, name, passed, spent_until_ms, opens_ms) VALUES {rows}"""
_DROP = "DELETE FROM limits WHERE name IN (VALUES {rows}) AND queue = ?"
_NEXT = "SELECT min(opens_ms) FROM limits WHERE queue = ?"
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
    accounts = _accounts(change, (limit for entry in limited for limit in entry.constraints.limits))
    for entry in limited:
        closed = next(
            (
                x
                for x in entry.constraints.limits
                if accounts[x.name].has_blocked or not _has_room(change, x)
            ),
            None,
        )
        if closed is None:
            _let_through(change, entry)
        else:
            _block(change, entry, closed)


def _let_through(change: Change, entry: Entry) -> None:
    for limit in entry.constraints.limits:
        account = change.accounts[limit.name]
        account.passed += 1
        account.changed = True
        _spend(change, limit)
    entry.flags |= PASSED


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
    _accounts(change, entry.constraints.limits)
    give_back(change, [entry])
    _block(change, entry, limit)
    return True


def give_back(change: Change, entries: Iterable[Entry]) -> None:
    """Undo the counts of jobs that were let through and did not begin."""
    unbegun = [entry for entry in entries if entry.flags & PASSED]
    accounts = _accounts(change, (limit for entry in unbegun for limit in entry.constraints.limits))
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
    accounts = _accounts(change, limits)
    if not entry.flags & PASSED:
        # It has begun before, with a worker that is gone: this is one more start.
        if closed := next((limit for limit in limits if not _has_room(change, limit)), None):
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
    accounts = _accounts(change, [Limit(name, 1, 1), *theirs])
    moved: list[Entry] = []
    for entry in blocked[:most]:
        closed = next(
            (
                limit
                for limit in entry.constraints.limits
                if (limit.name != name and accounts[limit.name].has_blocked)
                or not _has_room(change, limit)
            ),
            None,
        )
        if closed is not None and closed.name == name:
            break
        entry.be_ready(change.now_ms)
        if closed is None:
            _let_through(change, entry)
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
        accounts = _accounts(change, [Limit(name, 1, 1) for name in names])
        for name in names:
            accounts[name].changed = True


def _accounts(change: Change, limits: Iterable[Limit]) -> dict[str, Account]:
    """The accounts of these limits, as this change has them so far; read if it has none."""
    wanted = {(limit.name, limit.window_ms): limit for limit in limits}
    accounts = change.accounts
    names = {name for name, _ in wanted} - accounts.keys()
    rows = [(change.number, name, limit_gate(name)) for name in names]
    for name, passed, spent, opens, has_blocked in select_rows(change.connection, _LOAD, rows):
        accounts[name] = Account(name, passed, spent, opens, bool(has_blocked), {})
    missing = [(name, window) for name, window in wanted if window not in accounts[name].started]
    # A start in the same millisecond one window ago may be less than a window old.
    starts = [(change.number, name, window, change.now_ms - window) for name, window in missing]
    for name, window, count in select_rows(change.connection, _STARTED, starts):
        accounts[name].started[window] = count
    return accounts


def _has_room(change: Change, limit: Limit) -> bool:
    """Whether one more may pass, apart from jobs that are blocked."""
    account = change.accounts[limit.name]
    if account.started[limit.window_ms] + account.passed >= limit.most:
        return False
    return not limit.burst or _burst_opens(account, limit) <= change.now_ms


def _burst_opens(account: Account, limit: Limit) -> float:
    """When the burst has room for one more."""
    return account.spent_until_ms - (limit.burst - 1) * limit.window_ms / limit.most


def next_opening(connection: sqlite3.Connection, queue: int) -> int | None:
    """When the first blocked job may go on, at any limit of the queue."""
    [(opens,)] = connection.execute(_NEXT, (queue,)).fetchall()
    return opens  # type: ignore[no-any-return]


def close_accounts(change: Change) -> None:
    """Write what was counted, and when each limit may open."""
    changed = {limit_gate(x.name): x for x in change.accounts.values() if x.changed}
    if not changed:
        return
    first = heads(change.connection, change.number, changed)
    kept, dropped = [], []
    for gate, account in changed.items():
        opens = _opens(change, account, first[gate]) if gate in first else None
        if opens is not None and opens != account.opens_ms:
            change.notify("due")
        account.opens_ms, account.changed = opens, False
        if opens is None and not account.passed and account.spent_until_ms <= change.now_ms:
            dropped.append((account.name,))
        else:
            spent = account.spent_until_ms
            kept.append((change.number, account.name, account.passed, spent, opens))
    run_rows(change.connection, _KEEP, kept)
    run_rows(change.connection, _DROP, dropped, change.number)


def _opens(change: Change, account: Account, first: Entry) -> int | None:
    """When the first blocked job may go on; None if that depends on jobs that have not begun."""
    limit = next((x for x in first.constraints.limits if x.name == account.name), None)
    if limit is None:
        return change.now_ms
    _accounts(change, [limit])
    opens = change.now_ms
    if limit.burst:
        opens = max(opens, ceil(_burst_opens(account, limit)))
    over = account.started[limit.window_ms] + account.passed - limit.most + 1
    if over <= 0:
        return opens
    since = change.now_ms - limit.window_ms
    for at_ms, count in change.connection.execute(
        _OLDEST, (change.number, limit.name, since, over)
    ):
        over -= count
        if over <= 0:
            expires: int = at_ms + limit.window_ms + 1
            return max(opens, expires)
    return None
