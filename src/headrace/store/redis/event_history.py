"""RedisReader the stream of events with a cursor that misses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.job.envelope import Malformed
from headrace.store.redis.facts import events_of, parsed_cursor
from headrace.store.values import Fact, RecordedFact

if TYPE_CHECKING:
    from headrace.store.redis.keys import QueueKeys
    from headrace.store.redis.namespace import RedisNamespace

_ENTRIES = 100
_NOW = "$"
_LOST = Fact("lost", b"")


async def read_events(
    store: RedisNamespace, keys: QueueKeys, after: str, limit: int, wait: float
) -> list[RecordedFact]:
    """See `headrace.store.contract.Store.events`."""
    if after == _NOW:
        return [RecordedFact(await _newest(store, keys), await store.time_ms(), _LOST)]
    entry_id, seen = parsed_cursor(after)
    events = await _gap(store, keys, entry_id, seen) if entry_id else []
    while True:
        entries = await _entries(store, keys, entry_id, seen)
        if not entries and not events and wait > 0:
            entries = await store.read_later(keys.events, entry_id or "0-0", _ENTRIES, wait)
            wait = 0.0
        for id, fields in entries:
            at = id.decode()
            try:
                events += events_of(at, fields, (seen or 0) if at == entry_id else 0)
            except Malformed as error:
                store.oddities.note(keys.events, str(error))
            if len(events) >= limit:
                break
        if events or not entries:
            return _cut(events, limit)
        # Written in advance, and none of it came true: go on behind it.
        entry_id, seen = entries[-1][0].decode(), None


def _cut(events: list[RecordedFact], limit: int) -> list[RecordedFact]:
    """The first `limit` facts. A run's start is not cut off from its end: reading on from the
    start's cursor would return it again."""
    while limit < len(events) and limit and events[limit - 1].fact.kind == "started":
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
    # Of the entry itself some facts may be missing: those that were not seen.
    if _order(deleted) < _order(entry_id) or (deleted == entry_id and seen is None):
        return []
    return [RecordedFact(deleted, _order(deleted)[0], _LOST)]


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence or 0)
