"""What happened to jobs: a row for each write, and counts for each minute."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.store.sqlite.rows import queue_id, run_rows
from headrace.store.values import BUCKETS_US, Event, Fact, MinuteCount

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from headrace.store.sqlite.step import Step

KEPT = 100_000
_DROPPED_TOGETHER = 1_000
_MINUTE_MS = 60_000
_COUNTED = frozenset(("done", "retry", "dead", "cancelled", "held", "released"))
_TASK, _TASK_AND_KIND, _TOOK_US = itemgetter(2), itemgetter(2, 0), 5
# Of MessagePack: bytes with their length in one or two bytes, and text.
_BIN8, _BIN16, _FIXSTR, _STR8, _STR16 = 0xC4, 0xC5, 0xA0, 0xD9, 0xDA

_WRITE = """
    INSERT INTO facts (queue, first, count, at_ms, facts) VALUES (?1, coalesce((
        SELECT first + count FROM facts WHERE queue = ?1 ORDER BY first DESC LIMIT 1), 1), ?2, ?3,
        ?4)
    RETURNING first"""
_DROP = """
    DELETE FROM facts WHERE queue = ?1 AND first < (
        SELECT max(first) FROM facts WHERE queue = ?1 AND first <= ?2)"""
_COUNT = """
    INSERT INTO counters (queue, minute, task, kind, count) VALUES {rows}
    ON CONFLICT DO UPDATE SET count = count + excluded.count"""
_READ = """
    SELECT first, at_ms, facts FROM facts
    WHERE queue = ?1 AND first >= coalesce(
        (SELECT max(first) FROM facts WHERE queue = ?1 AND first <= ?2), 0)
        AND first + count > ?2
    ORDER BY first LIMIT ?3"""
_LAST = "SELECT first + count - 1 FROM facts WHERE queue = ? ORDER BY first DESC LIMIT 1"
_FIRST = "SELECT min(first) FROM facts WHERE queue = ?"
_STATS = """
    SELECT minute, task, kind, count FROM counters WHERE queue = ? AND minute >= ?
    ORDER BY minute, task, kind"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Fact]).decode
_NOTHING = Fact("lost", b"")


def write(step: Step) -> None:
    """Keep what was recorded in this step."""
    facts = step.facts
    if not facts:
        return
    values = (step.number, len(facts), step.now_ms, _encode(facts))
    [(first,)] = step.connection.execute(_WRITE, values).fetchall()
    _count(step, facts)
    last = first + len(facts) - 1
    if first // _DROPPED_TOGETHER != last // _DROPPED_TOGETHER and last > KEPT:
        step.connection.execute(_DROP, (step.number, last - KEPT + 1))
    step.tell("facts")


def _count(step: Step, facts: Sequence[tuple[Any, ...]]) -> None:
    sent = Counter(map(_TASK, facts[: step.sent]))
    counts = {(task, "sent"): n for task, n in sent.items()}
    kinds = Counter(map(_TASK_AND_KIND, facts))
    counts.update({(task, kind): n for (task, kind), n in kinds.items() if kind in _COUNTED})
    runs: dict[str, list[int]] = defaultdict(list)
    for fact in facts:
        # Those that tell of a run are longer than the others.
        if len(fact) > _TOOK_US:
            runs[fact[2]].append(fact[_TOOK_US])
    for task, took in runs.items():
        counts.update({(task, name): n for name, n in _histogram(took)})
    minute = step.now_ms // _MINUTE_MS
    rows = [(step.number, minute, *counted, count) for counted, count in counts.items()]
    run_rows(step.connection, _COUNT, rows)


def _histogram(took: list[int]) -> Iterator[tuple[str, int]]:
    """How many runs took up to so long; those that took no time at all were none."""
    took.sort()
    below = bisect_left(took, 1)
    for bucket in BUCKETS_US:
        # What takes longest of all counts with the last.
        upto = len(took) if bucket == BUCKETS_US[-1] else bisect_right(took, bucket)
        if upto > below:
            yield f"<{bucket}", upto - below
        below = upto


def read(
    connection: sqlite3.Connection, *, namespace: str, queue: str, after: str, limit: int
) -> list[Event]:
    """Facts after a cursor, which is the number of the last one seen."""
    number = queue_id(connection, namespace, queue) or 0
    if after == "$":
        last = connection.execute(_LAST, (number,)).fetchone()
        return [Event(str(last[0] if last else 0), 0, _NOTHING)]
    wanted = int(after or 0) + 1
    [(oldest,)] = connection.execute(_FIRST, (number,)).fetchall()
    events: list[Event] = []
    if after and oldest is not None and oldest > wanted:
        events.append(Event(str(oldest - 1), 0, _NOTHING))
    for first, at_ms, facts in connection.execute(_READ, (number, wanted, limit)):
        for place, fact in enumerate(_decode(facts), start=first):
            if place >= wanted:
                events += _events(place, at_ms, fact)
            if len(events) >= limit:
                return events
    return events


def _events(place: int, at_ms: int, fact: Fact) -> Iterator[Event]:
    """A fact, and before it the start that it tells of: a cursor between the two leads to both."""
    if fact.started_ms > 0:
        started = Fact("started", fact.key, fact.task, fact.attempt, fact.started_ms)
        yield Event(str(place - 1), fact.started_ms, started)
    yield Event(str(place), at_ms, fact)


def stats(
    connection: sqlite3.Connection, *, namespace: str, queue: str, since_minute: int
) -> list[MinuteCount]:
    number = queue_id(connection, namespace, queue)
    found = connection.execute(_STATS, (number, since_minute))
    return [MinuteCount(*row) for row in found]


def task_of(envelope: bytes) -> str:
    """The name of the task in an envelope, or in its beginning; empty if it cannot be told.

    By hand, because only the first few bytes are there, or are worth looking at."""
    try:
        kind = envelope[2]
        if kind == _BIN8:
            at = 4 + envelope[3]
        elif kind == _BIN16:
            at = 5 + int.from_bytes(envelope[3:5], "big")
        else:
            return ""
        kind = envelope[at]
        if _FIXSTR <= kind < _FIXSTR + 32:
            return str(envelope[at + 1 : at + 1 + kind - _FIXSTR], "utf-8")
        if kind == _STR8:
            return str(envelope[at + 2 : at + 2 + envelope[at + 1]], "utf-8")
        if kind == _STR16:
            return str(
                envelope[at + 3 :][: int.from_bytes(envelope[at + 1 : at + 3], "big")], "utf-8"
            )
    except (IndexError, UnicodeDecodeError):
        pass
    return ""
