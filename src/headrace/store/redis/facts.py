"""Facts of jobs: written into the stream of events, and read from it without a gap.

Many facts make one entry, so that a batch of jobs costs one more command and not one per job.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.job.envelope import Malformed, id_and_task
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.job.tally import Tally
from headrace.errors import ConfigError
from headrace.store.fact_block import decode_facts, encode_sent, encode_settled
from headrace.store.values import Fact, MinuteCount, RecordedFact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.store.redis.keys import QueueKeys
    from headrace.store.redis.namespace import RedisNamespace

_encode = msgspec.msgpack.Encoder().encode
_decode_keys = msgspec.msgpack.Decoder(list[bytes]).decode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
_COUNT = re.compile(rb"-?[0-9]{1,18}")
_ENTRIES = 100
_NOW = "$"
_LOST = Fact("lost", b"")


class FactBatch:
    """`count` facts, encoded as one value, and what to add to the minute's counters."""

    __slots__ = ("_counts", "count", "data")

    def __init__(self, count: int, data: bytes, counts: dict[str, int]) -> None:
        self.count = count
        self.data = data
        self._counts = counts

    @property
    def counts(self) -> bytes:
        return _encode(self._counts) if self._counts else b""


NONE = FactBatch(0, b"", {})


def of_parcels(parcels: Sequence[Parcel], *, listed: bool) -> FactBatch:
    """Facts of sent jobs. Unless they are `listed`, only their counts: the script then writes the
    facts, because it decides where each job goes."""
    if len(parcels) == 1 and listed:
        return _of_parcel(parcels[0])
    tasks = [_task(parcel) for parcel in parcels]
    counts = {f"sent {task}": count for task, count in Counter(tasks).items()}
    if not listed:
        return FactBatch(0, b"", counts)
    kinds = ["scheduled" if _is_later(parcel) else "sent" for parcel in parcels]
    data = encode_sent([parcel.job_id for parcel in parcels], kinds, tasks)
    return FactBatch(len(parcels), data, counts)


def _of_parcel(parcel: Parcel) -> FactBatch:
    """The fact of a job that was sent alone: its kind and task. The script knows its id."""
    named, task = id_and_task(parcel.envelope)
    if parcel.job_id not in named:
        task = b""
    kind = b"scheduled " if _is_later(parcel) else b"sent "
    return FactBatch(1, kind + task, {f"sent {task.decode('utf-8', 'replace')}": 1})


def _task(parcel: Parcel) -> str:
    named, task = id_and_task(parcel.envelope)
    return task.decode("utf-8", "replace") if parcel.job_id in named else ""


def _is_later(parcel: Parcel) -> bool:
    return bool(parcel.delay_ms) or parcel.at_ms is not None


def of_settlements(tally: Tally) -> FactBatch:
    counts = {f"{name} {task}": count for (name, task), count in tally.counts.items()}
    columns = tally.columns
    return FactBatch(len(columns.deliveries), encode_settled(columns), counts)


async def read_events(
    store: RedisNamespace, keys: QueueKeys, after: str, limit: int, wait: float
) -> list[RecordedFact]:
    """See `headrace.store.contract.Store.events`."""
    if after == _NOW:
        return [RecordedFact(await _newest(store, keys), await store.time_ms(), _LOST)]
    entry_id, seen = _parsed_cursor(after)
    events = await _gap(store, keys, entry_id, seen) if entry_id else []
    while True:
        entries = await _entries(store, keys, entry_id, seen)
        if not entries and not events and wait > 0:
            entries = await store.read_later(keys.events, entry_id or "0-0", _ENTRIES, wait)
            wait = 0.0
        for id, fields in entries:
            at = id.decode()
            try:
                events += _events_of(at, fields, (seen or 0) if at == entry_id else 0)
            except Malformed as error:
                store.oddities.note(keys.events, str(error))
            if len(events) >= limit:
                break
        if events or not entries:
            return _cut(events, limit)
        # Written in advance, and none of it came true: read on after it.
        entry_id, seen = entries[-1][0].decode(), None


def _cut(events: list[RecordedFact], limit: int) -> list[RecordedFact]:
    """The first `limit` facts. A run's start is not cut off from its end: reading on from the
    start's cursor would return it again."""
    if 0 < limit < len(events) and events[limit].has_start:
        limit += 1
    return events[:limit]


async def _newest(store: RedisNamespace, keys: QueueKeys) -> str:
    found = await store.links().ask.call(
        "XREVRANGE", keys.events, "+", "-", "COUNT", 1, key=keys.events
    )
    return found[0][0].decode() if found else "0-0"


async def _entries(
    store: RedisNamespace, keys: QueueKeys, entry_id: str, seen: int | None
) -> list[Any]:
    # An entry is read again if only some of its facts were seen.
    start = (entry_id if seen is not None else f"({entry_id}") if entry_id else "-"
    entries: list[Any] = await store.links().ask.call(
        "XRANGE", keys.events, start, "+", "COUNT", _ENTRIES, key=keys.events
    )
    return entries


async def _gap(
    store: RedisNamespace, keys: QueueKeys, entry_id: str, seen: int | None
) -> list[RecordedFact]:
    """`lost`, if entries after this one are no longer kept."""
    reply = await store.links().ask.call(
        "XREVRANGE", keys.events, "+", "-", "COUNT", 1, key=keys.events
    )
    if not reply:
        return []
    info = await store.links().ask.call("XINFO", "STREAM", keys.events, key=keys.events)
    about = dict(zip(info[::2], info[1::2], strict=True))
    deleted = about.get(b"max-deleted-entry-id", b"0-0").decode()
    # Of the entry itself, facts that were not seen may be missing.
    if _order(deleted) < _order(entry_id) or (deleted == entry_id and seen is None):
        return []
    return [RecordedFact(deleted, _order(deleted)[0], _LOST)]


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence or 0)


def _events_of(entry_id: str, fields: Sequence[bytes], skip: int) -> list[RecordedFact]:
    """The facts of one entry, without the first `skip`. The start of a run comes right before its
    end, with the cursor before both, so that reading on from there misses nothing. Raises
    `Malformed` if the entry is not ours."""
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        facts = _alone(fields) or decode_facts(named.get(b"f", b""))
        untrue = _untrue(facts, _decode_keys(named[b"x"])) if b"x" in named else ()
    except _UNREADABLE as error:
        raise Malformed(f"entry {entry_id}: {error}") from None
    at_ms = int(entry_id.partition("-")[0])
    events: list[RecordedFact] = []
    for at, fact in enumerate(facts[skip:], start=skip + 1):
        if at in untrue:
            continue
        cursor = entry_id if at == len(facts) else _cursor(entry_id, at)
        event = RecordedFact.written(cursor, at_ms, fact)
        if event.has_start:
            events.append(event.start(_cursor(entry_id, at - 1)))
        events.append(event)
    return events


def _alone(fields: Sequence[bytes]) -> list[Fact]:
    """The fact of an entry that has no other: kind and task are the name of its field, which the
    server keeps once for many entries in a row; the job's id is the value."""
    kind, space, task = fields[0].partition(b" ")
    if not space or len(fields) != 2:
        return []
    return [msgspec.convert((kind.decode(), fields[1], task.decode("utf-8", "replace")), Fact)]


def _untrue(facts: Sequence[Fact], lost: Sequence[JobId]) -> set[int]:
    """Numbers of facts that were written in advance and did not come true: the last facts of each
    job in `lost`, one for each time it is listed there."""
    left, found = Counter(lost), set()
    for at in range(len(facts), 0, -1):
        if left[facts[at - 1].job_id]:
            left[facts[at - 1].job_id] -= 1
            found.add(at)
    return found


def _cursor(entry_id: str, seen: int) -> str:
    return f"{entry_id}.{seen}"


def _parsed_cursor(cursor: str) -> tuple[str, int | None]:
    """The entry id, and how many of its facts were seen; None for all."""
    found = re.fullmatch(r"(?:(\d+-\d+)(?:\.(\d+))?)?", cursor)
    if found is None:
        raise ConfigError(f"{cursor!r} is not a cursor of events: use one that an event had")
    return found[1] or "", int(found[2]) if found[2] else None


def minute_counts(minutes: Sequence[Sequence[bytes]]) -> tuple[list[MinuteCount], list[int]]:
    """The counts, and the minutes that hold something other than a count."""
    found: list[MinuteCount] = []
    odd: list[int] = []
    for minute, *pairs in minutes:
        for name, count in zip(pairs[::2], pairs[1::2], strict=True):
            kind, _, task = name.decode("utf-8", "replace").partition(" ")
            if _COUNT.fullmatch(count):
                found.append(MinuteCount(int(minute), task, kind, int(count)))
            else:
                odd.append(int(minute))
    return found, odd
