"""Facts of jobs, in one row for each write, and their counts for each minute."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.job.envelope import id_and_task
from headrace.core.job.tally import KINDS
from headrace.store.fact_block import decode_facts
from headrace.store.sqlite.entries import json_of
from headrace.store.sqlite.rows import numbers_in, queue_id, run_rows
from headrace.store.values import Fact, MinuteCount, RecordedFact

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from headrace.core.clock import Clock
    from headrace.store.oddities import Oddities
    from headrace.store.sqlite.change import Change

_DROPPED_TOGETHER = 1_000
_MINUTE_MS = 60_000
_COUNTED = frozenset((*KINDS, "replayed"))
_TASK, _TASK_AND_KIND = itemgetter(2), itemgetter(2, 0)

_WRITE = """
    INSERT INTO facts (queue, first, count, at_ms, facts) VALUES (:queue, coalesce((
        SELECT first + count FROM facts WHERE queue = :queue ORDER BY first DESC LIMIT 1), 1),
        :count, :now_ms, :facts)
    RETURNING first"""
_DROP = """
    DELETE FROM facts WHERE queue = :queue AND first < (
        SELECT max(first) FROM facts WHERE queue = :queue AND first <= :kept)"""
_COUNT = """
    INSERT INTO counters (queue, minute, task, kind, count) VALUES {rows}
    ON CONFLICT DO UPDATE SET count = count + excluded.count"""
_READ = """
    SELECT first, CAST(at_ms AS INTEGER), CAST(facts AS BLOB) FROM facts
    WHERE queue = :queue AND first >= coalesce(
        (SELECT max(first) FROM facts WHERE queue = :queue AND first <= :wanted), 0)
        AND first + count > :wanted
    ORDER BY first LIMIT :limit"""
_LAST = "SELECT first + count - 1 FROM facts WHERE queue = ? ORDER BY first DESC LIMIT 1"
_OLDEST = "SELECT first, at_ms FROM facts WHERE queue = ? ORDER BY first LIMIT 1"
_STATS = """
    SELECT name, minute, CAST(task AS TEXT), CAST(kind AS TEXT), count
    FROM queues CROSS JOIN counters ON counters.queue = queues.id
    WHERE namespace = ? AND name IN (SELECT value FROM json_each(?)) AND minute >= ?
    ORDER BY name, minute, task, kind"""

_encode = msgspec.msgpack.Encoder().encode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_NOTHING = Fact("lost", b"")


def write(change: Change) -> None:
    """Write the facts and counts of this change."""
    facts: list[Any] = change.facts or []
    _count(change, facts)
    ended, block = change.ended
    count = ended + len(facts)
    if not count:
        return
    values = {
        "queue": change.number,
        "count": count,
        "now_ms": change.now_ms,
        "facts": _encode([msgspec.Raw(block), *facts] if block else facts),
    }
    [(first,)] = change.connection.execute(_WRITE, values).fetchall()
    last = first + count - 1
    kept = change.history_rules.queues.of(change.queue).events
    together = min(_DROPPED_TOGETHER, kept // 10 + 1)
    if (first - 1) // together != last // together and last > kept:
        change.connection.execute(_DROP, {"queue": change.number, "kept": last - kept + 1})
    change.notify("facts")


def _count(change: Change, facts: Sequence[tuple[Any, ...]]) -> None:
    sent = Counter(map(_TASK, facts[: change.sent]))
    counts = Counter(change.counts | {(task, "sent"): n for task, n in sent.items()})
    kinds = Counter(map(_TASK_AND_KIND, facts))
    counts.update({(task, kind): n for (task, kind), n in kinds.items() if kind in _COUNTED})
    minute = change.now_ms // _MINUTE_MS
    rows = [(change.number, minute, *counted, count) for counted, count in counts.items()]
    run_rows(change.connection, _COUNT, rows)


def read(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queue: str,
    after: str,
    limit: int,
    clock: Clock,
    oddities: Oddities,
) -> list[RecordedFact]:
    """Facts after a cursor, the number of the last one seen."""
    number = queue_id(connection, namespace, queue) or 0
    if after == "$":
        last = connection.execute(_LAST, (number,)).fetchone()
        return [RecordedFact(str(last[0] if last else 0), clock.now_ms(), _NOTHING)]
    wanted = numbers_in(after, 1, "events")[0] + 1 if after else 1
    events = _gap(connection, number, wanted) if after else []
    asked = {"queue": number, "wanted": wanted, "limit": limit}
    for first, at_ms, raw in connection.execute(_READ, asked):
        try:
            facts = decode_facts(raw)
        except _UNREADABLE as error:
            oddities.note(f"table facts, queue {queue!r}", f"row {first}: {error}")
            continue
        for place, fact in enumerate(facts, start=first):
            if place >= wanted:
                events += _events(place, at_ms, fact)
            if len(events) >= limit:
                return events
    return events


def _gap(connection: sqlite3.Connection, queue: int, wanted: int) -> list[RecordedFact]:
    """`lost`, if the wanted fact is no longer kept."""
    oldest = connection.execute(_OLDEST, (queue,)).fetchone()
    if oldest is None or oldest[0] <= wanted:
        return []
    return [RecordedFact(str(oldest[0] - 1), oldest[1], _NOTHING)]


def _events(place: int, at_ms: int, fact: Fact) -> Iterator[RecordedFact]:
    """A fact, after the start of its run if that was written with it. That start's cursor is before
    both of them."""
    event = RecordedFact.written(str(place), at_ms, fact)
    if event.has_start:
        yield event.start(str(place - 1))
    yield event


def stats(
    connection: sqlite3.Connection,
    namespace: str,
    *,
    queues: Sequence[str],
    since_minute: int,
    oddities: Oddities,
) -> dict[str, list[MinuteCount]]:
    counted: dict[str, list[MinuteCount]] = {queue: [] for queue in queues}
    chosen = (namespace, json_of(queues), since_minute)
    for queue, minute, task, kind, count in connection.execute(_STATS, chosen):
        if isinstance(minute, int) and isinstance(count, int):
            counted[queue].append(MinuteCount(minute, task, kind, count))
        else:
            oddities.note(f"table counters, queue {queue!r}", f"{count!r} at {minute!r}")
    return counted


def task_of(envelope: bytes) -> str:
    """The name of the task in an envelope or its first bytes; empty if there is none."""
    return id_and_task(envelope)[1].decode("utf-8", "replace")
