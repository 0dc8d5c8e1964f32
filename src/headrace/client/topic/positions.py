"""Places in the logs of a topic: where groups begin, and what `read` gives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from headrace.core.clock import epoch_ms_before
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.topic.topic import Place
from headrace.errors import EventNotFound
from headrace.store.contract import Store
from headrace.store.topics import LoggedEvent, Position, TopicStore

_SOON_MS = 20
_LOOKS = 3


def position_of(place: Place) -> Position:
    """The place in a single log."""
    if isinstance(place, datetime):
        return Position("time", at_ms=epoch_ms_before("a place in a topic", place))
    if place == "new":
        return Position("new")
    if place == "start":
        return Position("start")
    return Position("event", event=ids.to_id(place))


async def positions_of(store: TopicStore, logs: Sequence[str], place: Place) -> list[Position]:
    """The place in each log of a topic. An event is in one log; its place in the others follows
    from its time and, within the same millisecond, from the order of the logs."""
    position = position_of(place)
    if position.kind != "event" or len(logs) == 1:
        return [position] * len(logs)
    found = await _find(store, logs, position)
    if found is None:
        # A log that has to know the event raises `EventNotFound` itself.
        return [position] * len(logs)
    here, at_ms = found
    return [
        position if shard == here else Position("time", at_ms=at_ms + (shard < here))
        for shard in range(len(logs))
    ]


async def _find(
    store: TopicStore, logs: Sequence[str], position: Position
) -> tuple[int, int] | None:
    """The log that holds an event, and when it was added."""
    for shard, log in enumerate(logs):
        logged = await find_event(store, log, position.event)
        if logged is not None:
            return shard, logged.at_ms
    return None


async def find_event(store: TopicStore, log: str, event: JobId) -> LoggedEvent | None:
    """An event as it stands in a log; None if it is not there."""
    try:
        cursor = await store.position(log, Position("event", event=event))
    except EventNotFound:
        return None
    found = await store.read(log, cursor, 1)
    return found[0] if found and found[0].job_id == event else None


async def read_logs(
    store: Store, logs: Sequence[str], after: Place | None, limit: int
) -> list[LoggedEvent]:
    """Events after a place, merged by time. A time is inclusive, an id exclusive."""
    if after is None:
        cursors = [""] * len(logs)
    else:
        places = await positions_of(store, logs, after)
        cursors = await asyncio.gather(*map(store.position, logs, places))
    known = ids.to_id(after) if isinstance(after, str) else None
    # One more: the event after which it begins is among those read.
    pages = await _pages(store, dict(zip(logs, cursors, strict=True)), limit + (known is not None))
    found = [
        (logged.at_ms, shard, at, logged)
        for shard, page in enumerate(pages)
        for at, logged in enumerate(page)
        if logged.job_id != known
    ]
    return [logged for *_, logged in sorted(found, key=lambda each: each[:3])][:limit]


async def _pages(store: Store, cursors: Mapping[str, str], limit: int) -> list[list[LoggedEvent]]:
    """The next events of each log. With several logs, waits until no log can get another event of
    the last millisecond: a reader that continues after that millisecond would miss it."""
    for _ in range(_LOOKS):
        now_ms = await store.time_ms() if len(cursors) > 1 else None
        pages = await asyncio.gather(*(store.read(log, at, limit) for log, at in cursors.items()))
        newest_ms = max((page[-1].at_ms for page in pages if page), default=0)
        # Do not wait for a clock that stands still or was set back.
        if now_ms is None or not 0 <= newest_ms - now_ms < _SOON_MS:
            break
        await asyncio.sleep((newest_ms - now_ms + 1) / 1000)
    return pages
