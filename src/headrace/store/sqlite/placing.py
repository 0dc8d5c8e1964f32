"""Bringing jobs to their places: new ones, due ones, and dead ones that are sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.store.contract import Promotion
from headrace.store.sqlite.rows import bounded_ms, made_queue_id, new_numbers, queue_id, run_rows
from headrace.store.sqlite.signals import News

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from headrace.core.call import Parcel
    from headrace.core.ids import JobKey

_PROMOTED_TOGETHER = 1000

_INSERT = """
    INSERT INTO jobs (id, queue, key, state, position, time_ms, envelope) VALUES {rows}
    ON CONFLICT DO NOTHING"""
_INSERT_UNLESS_ENDED = """
    WITH new (id, queue, key, state, position, time_ms, envelope) AS (VALUES {rows})
    INSERT INTO jobs (id, queue, key, state, position, time_ms, envelope)
    SELECT * FROM new WHERE NOT EXISTS (
        SELECT 1 FROM results AS r
        WHERE r.queue = new.queue AND r.key = new.key AND r.expires_ms > ?)
    ON CONFLICT DO NOTHING"""
_PROMOTE = """
    UPDATE jobs SET state = 'waiting', position = ? + due.place, time_ms = 0
    FROM (SELECT id, row_number() OVER (ORDER BY time_ms, id) AS place FROM jobs
          WHERE queue = ? AND state = 'scheduled' AND time_ms <= ?
          ORDER BY time_ms, id LIMIT ?) AS due
    WHERE jobs.id = due.id"""
_NEXT_DUE = "SELECT min(time_ms) FROM jobs WHERE queue = ? AND state = 'scheduled'"
_REPLAY = """
    UPDATE jobs SET id = ?1, position = ?1, state = 'waiting', time_ms = 0, count = 0, owner = '',
        reason = '', past = x''
    WHERE queue = ?2 AND key = ?3 AND state = 'dead'"""


def append(
    connection: sqlite3.Connection,
    news: list[News],
    *,
    namespace: str,
    queue: str,
    parcels: Sequence[Parcel],
    repeat: bool,
    now_ms: int,
) -> list[bool]:
    """For each parcel, whether it was new."""
    number = made_queue_id(connection, namespace, queue)
    first = new_numbers(connection, len(parcels))
    rows = [
        _row(number, parcel, place, now_ms) for place, parcel in enumerate(parcels, start=first)
    ]
    _tell_of_rows(connection, news, queue, rows)
    if repeat:
        added = run_rows(connection, _INSERT_UNLESS_ENDED, rows, now_ms)
    else:
        added = run_rows(connection, _INSERT, rows)
    if added == len(rows):
        return [True] * added
    ids = connection.execute(
        "SELECT id FROM jobs WHERE id BETWEEN ? AND ?", (first, first + len(rows) - 1)
    )
    new = {id for (id,) in ids}
    return [row[0] in new for row in rows]


def _row(queue: int, parcel: Parcel, place: int, now_ms: int) -> tuple[Any, ...]:
    due = parcel.at_ms
    if parcel.delay_ms:
        due = due_after(now_ms, parcel.delay_ms)
    if due is None or due <= now_ms:
        return place, queue, parcel.key, "waiting", place, 0, parcel.envelope
    return place, queue, parcel.key, "scheduled", 0, bounded_ms(due), parcel.envelope


def due_after(now_ms: int, delay_ms: int) -> int:
    """One more: `now_ms` has lost its fraction, and a job must never start early."""
    return bounded_ms(now_ms + delay_ms + 1)


def _tell_of_rows(
    connection: sqlite3.Connection, news: list[News], queue: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    """To be called before the rows are in their places."""
    due_times = [row[5] for row in rows if row[5]]
    if due_times:
        tell_of_due(news, queue, min(due_times), next_due(connection, rows[0][1]))
    if len(due_times) < len(rows):
        news.append(News("ready", queue))


def tell_of_due(news: list[News], queue: str, due: int, earliest: int | None) -> None:
    """Those who sleep until the `earliest` due time must know if there is one before it."""
    if earliest is None or due < earliest:
        news.append(News("due", queue))


def next_due(connection: sqlite3.Connection, queue: int) -> int | None:
    """When the first scheduled job is due."""
    [(due,)] = connection.execute(_NEXT_DUE, (queue,)).fetchall()
    return due  # type: ignore[no-any-return]


def promote(
    connection: sqlite3.Connection, news: list[News], *, namespace: str, queue: str, now_ms: int
) -> Promotion:
    """Put due jobs behind those that wait, the earliest due first."""
    number = queue_id(connection, namespace, queue)
    if number is None:
        return Promotion(0, None)
    first = new_numbers(connection, _PROMOTED_TOGETHER)
    moved = connection.execute(_PROMOTE, (first - 1, number, now_ms, _PROMOTED_TOGETHER)).rowcount
    if moved:
        news.append(News("ready", queue))
    rest = next_due(connection, number)
    return _promotion(moved, rest, now_ms)


def nothing_due(
    connection: sqlite3.Connection, *, namespace: str, queue: str, now_ms: int
) -> Promotion | None:
    """What `promote` would say if it has nothing to do; None if it has."""
    number = queue_id(connection, namespace, queue)
    due = None if number is None else next_due(connection, number)
    return None if due is not None and due <= now_ms else _promotion(0, due, now_ms)


def _promotion(moved: int, due: int | None, now_ms: int) -> Promotion:
    if due is None:
        return Promotion(moved, None)
    return Promotion(moved, max(0, due - now_ms) / 1000, more=due <= now_ms)


def replay(
    connection: sqlite3.Connection,
    news: list[News],
    *,
    namespace: str,
    queue: str,
    keys: Sequence[JobKey],
) -> list[bool]:
    """For each key, whether it was of a dead job, which now waits as if it had never run."""
    number = queue_id(connection, namespace, queue)
    if number is None:
        return [False] * len(keys)
    first = new_numbers(connection, len(keys))
    replayed = []
    for place, key in enumerate(keys, start=first):
        was_dead = connection.execute(_REPLAY, (place, number, key)).rowcount > 0
        replayed.append(was_dead)
        if was_dead:
            # Else those who wait for the new run would be given the end of the old one.
            connection.execute("DELETE FROM results WHERE queue = ? AND key = ?", (number, key))
    if any(replayed):
        news.append(News("ready", queue))
    return replayed
