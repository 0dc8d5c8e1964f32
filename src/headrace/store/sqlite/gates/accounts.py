"""What limits have let through: counted in a change, written at its end."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from headrace.store.sqlite.change import Account, Change
from headrace.store.sqlite.entries import heads, limit_gate
from headrace.store.sqlite.rows import run_rows, select_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from headrace.core.job.constraints import Limit
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


def load(change: Change, limits: Iterable[Limit]) -> dict[str, Account]:
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


def has_room(change: Change, limit: Limit) -> bool:
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
    load(change, [limit])
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
