"""Applying outcomes: each to the delivery that is still held, none to one that was lost."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.job import peek_key
from headrace.core.outcome import Again, Dead, Done, Released
from headrace.store.sqlite import sweeping
from headrace.store.sqlite.placing import due_after, next_due, tell_of_due
from headrace.store.sqlite.rows import bounded_ms, new_numbers, run_rows
from headrace.store.sqlite.signals import News

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from headrace.core.delivery import Delivery
    from headrace.core.ids import JobKey
    from headrace.store.contract import Settlement

_HELD = """
    SELECT json_group_array(id) FROM jobs
    WHERE id IN (SELECT value FROM json_each(?)) AND count = ? AND owner = ? AND state = 'running'
"""
_KEEP = """
    WITH ended (id, expires_ms, verdict) AS (VALUES {rows})
    INSERT INTO results (queue, key, expires_ms, verdict)
    SELECT jobs.queue, jobs.key, ended.expires_ms, ended.verdict
    FROM ended JOIN jobs ON jobs.id = ended.id
    WHERE true
    ON CONFLICT (queue, key) DO UPDATE
    SET expires_ms = excluded.expires_ms, verdict = excluded.verdict"""
_FORGET = "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_PLACE_AGAIN = """
    WITH again (id, place, state, position, time_ms, past) AS (VALUES {rows})
    UPDATE jobs SET id = again.place, state = again.state, position = again.position,
        time_ms = again.time_ms, past = again.past, count = 0, owner = ''
    FROM again WHERE jobs.id = again.id"""
_BURY = """
    WITH dead (id, died_ms, reason, past) AS (VALUES {rows})
    UPDATE jobs SET state = 'dead', time_ms = dead.died_ms, reason = dead.reason, past = dead.past,
        owner = ''
    FROM dead WHERE jobs.id = dead.id"""
# Its position is still the one it was fetched from, before those of all jobs not yet fetched.
_HAND_BACK = """
    WITH released (id, place) AS (VALUES {rows})
    UPDATE jobs SET id = released.place, state = 'waiting', time_ms = 0, count = count - 1,
        owner = ''
    FROM released WHERE jobs.id = released.id"""
OWNED = """
    SELECT id, envelope, past, count, position FROM jobs
    WHERE queue = (SELECT id FROM queues WHERE namespace = ? AND name = ?)
        AND state = 'running' AND owner = ?"""


def split_held(
    connection: sqlite3.Connection, owner: str, deliveries: Sequence[Delivery]
) -> tuple[set[int], list[Delivery]]:
    """The row ids of the deliveries that `owner` still holds, and the deliveries that it lost."""
    by_count = defaultdict(list)
    for delivery in deliveries:
        by_count[delivery.count].append(delivery.receipt)
    held: set[int] = set()
    for count, receipts in by_count.items():
        [(found,)] = connection.execute(_HELD, (_json(receipts), count, owner)).fetchall()
        held.update(msgspec.json.decode(found))
    if len(held) == len(deliveries):
        return held, []
    seen = set(held)
    lost = []
    for delivery in deliveries:
        # Given twice, it is held once: the second time the first has settled it.
        if delivery.receipt in seen:
            seen.discard(delivery.receipt)
        else:
            lost.append(delivery)
    return held, lost


def settle(
    connection: sqlite3.Connection,
    news: list[News],
    *,
    owner: str,
    queue: str,
    settlements: Sequence[Settlement],
    now_ms: int,
) -> list[Delivery]:
    """Apply the outcomes of what `owner` still holds; returns what it lost."""
    held, lost = split_held(connection, owner, [each.delivery for each in settlements])
    by_kind: dict[type, list[tuple[Delivery, Any]]] = defaultdict(list)
    for each in settlements:
        if each.delivery.receipt in held:
            held.discard(each.delivery.receipt)
            by_kind[type(each.outcome)].append((each.delivery, each.outcome))
    _keep_verdicts(connection, news, queue, [*by_kind[Done], *by_kind[Dead]], now_ms)
    if done := by_kind[Done]:
        connection.execute(_FORGET, (_json([delivery.receipt for delivery, _ in done]),))
    if again := by_kind[Again]:
        _place_again(connection, news, queue, again, now_ms)
    if dead := by_kind[Dead]:
        run_rows(connection, _BURY, [_dead_row(*each, now_ms) for each in dead])
    if released := by_kind[Released]:
        hand_back(connection, news, queue, [delivery.receipt for delivery, _ in released])
    return lost


def hand_back(
    connection: sqlite3.Connection, news: list[News], queue: str, receipts: Sequence[Any]
) -> None:
    """Let running jobs wait again where they were, as if they had not been delivered."""
    first = new_numbers(connection, len(receipts))
    rows = [(receipt, place) for place, receipt in enumerate(receipts, start=first)]
    run_rows(connection, _HAND_BACK, rows)
    news.append(News("ready", queue))


def hand_back_all(
    connection: sqlite3.Connection, news: list[News], *, owner: str, namespace: str, queue: str
) -> None:
    """Let all jobs of the queue that `owner` holds wait again."""
    found = connection.execute(OWNED, (namespace, queue, owner)).fetchall()
    if found:
        hand_back(connection, news, queue, [row[0] for row in found])


def _keep_verdicts(
    connection: sqlite3.Connection,
    news: list[News],
    queue: str,
    ended: Iterable[tuple[Delivery, Any]],
    now_ms: int,
) -> None:
    kept = [(d, outcome) for d, outcome in ended if outcome.verdict and outcome.ttl_ms > 0]
    if not kept:
        return
    rows = [
        (d.receipt, bounded_ms(now_ms + outcome.ttl_ms), outcome.verdict) for d, outcome in kept
    ]
    run_rows(connection, _KEEP, rows)
    # Two for one, so that what has expired can only become less.
    sweeping.drop_results(connection, now_ms, limit=2 * len(rows))
    news.append(News("finished", queue, _keys([d for d, _ in kept])))


def _keys(deliveries: Sequence[Delivery]) -> list[JobKey] | None:
    keys = [delivery.key or peek_key(delivery.envelope) for delivery in deliveries]
    return keys if all(keys) else None


def _place_again(
    connection: sqlite3.Connection,
    news: list[News],
    queue: str,
    again: Sequence[tuple[Delivery, Again]],
    now_ms: int,
) -> None:
    first = new_numbers(connection, len(again))
    rows: list[tuple[Any, ...]] = []
    for place, (delivery, outcome) in enumerate(again, start=first):
        if outcome.delay_ms > 0:
            due = due_after(now_ms, outcome.delay_ms)
            rows.append((delivery.receipt, place, "scheduled", 0, due, outcome.past))
        else:
            rows.append((delivery.receipt, place, "waiting", place, 0, outcome.past))
    if any(row[2] == "waiting" for row in rows):
        news.append(News("ready", queue))
    due_times = [row[4] for row in rows if row[4]]
    if due_times:
        [(number,)] = connection.execute(
            "SELECT queue FROM jobs WHERE id = ?", (rows[0][0],)
        ).fetchall()
        tell_of_due(news, queue, min(due_times), next_due(connection, number))
    run_rows(connection, _PLACE_AGAIN, rows)


def _dead_row(delivery: Delivery, outcome: Dead, now_ms: int) -> tuple[Any, ...]:
    # A job must not stay alive over a character that cannot be stored.
    reason = outcome.reason.encode("utf-8", "replace").decode()
    return delivery.receipt, now_ms, reason, outcome.past


def _json(receipts: Sequence[Any]) -> str:
    return msgspec.json.encode(receipts).decode()
