"""Events of jobs, as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.errors import ConfigError, StoreUnavailable
from headrace.store.values import Kind, RecordedFact

if TYPE_CHECKING:
    from headrace.store.contract import Store

NOW = "$"
_PAGE = 1000
_WAIT = 5.0
_PAUSE = 1.0
_BETWEEN = ","


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened to a job."""

    cursor: str
    """Where reading goes on after this event."""
    time: datetime
    """By the store's clock."""
    queue: str
    """The queue of the job."""
    kind: Kind
    """`lost` if events after the cursor are not kept any more; it has no job."""
    id: str
    """The id of the job."""
    task: str
    """The task's name."""
    attempt: int
    """Zero if the event is not about a run."""
    duration: timedelta | None
    """How long the run took, if this is its end."""
    detail: str
    """Why a job is dead, what a blocked one waits for, or the ms until a retry."""

    @classmethod
    def of(cls, queue: str, event: RecordedFact, cursor: str) -> JobEvent:
        fact = event.fact
        return cls(
            cursor=cursor,
            time=to_datetime(event.at_ms),
            queue=queue,
            kind=fact.kind,
            id=ids.to_text(fact.job_id) if fact.job_id else "",
            task=fact.task,
            attempt=fact.attempt,
            duration=timedelta(microseconds=fact.took_us) if fact.took_us else None,
            detail=fact.detail,
        )


async def read_events(
    store: Store, queues: Sequence[str], after: str, *, follow: bool
) -> AsyncGenerator[JobEvent, None]:
    """Events after a cursor, in order for each queue."""
    cursors = await _cursors(store, queues, after)
    begun = False
    while True:
        try:
            pages = await _pages(store, queues, cursors, _WAIT if follow else 0.0)
        except StoreUnavailable:
            # Nothing is missed by waiting for the store to come back: there is a cursor.
            if not (follow and begun):
                raise
            await asyncio.sleep(_PAUSE)
            continue
        except ValueError:
            # Only the store knows which texts are cursors.
            raise ConfigError(f"{after!r} is not a cursor of events") from None
        begun = True
        for at, event in _merged(pages):
            cursors[at] = event.cursor
            yield JobEvent.of(queues[at], event, _BETWEEN.join(cursors))
        if not any(pages) and not follow:
            return


async def _cursors(store: Store, queues: Sequence[str], after: str) -> list[str]:
    """A cursor for each queue; a cursor of several queues has one part for each."""
    if after == NOW:
        return [(await store.events(queue, NOW))[0].cursor for queue in queues]
    cursors = after.split(_BETWEEN) if after else [""] * len(queues)
    if len(cursors) != len(queues):
        raise ConfigError(f"{after!r} is not a cursor of events of {' and '.join(queues)}")
    return cursors


async def _pages(
    store: Store, queues: Sequence[str], cursors: Sequence[str], wait: float
) -> list[list[RecordedFact]]:
    """The next events of each queue; waits for the first."""
    if len(queues) == 1:
        return [await store.events(queues[0], cursors[0], _PAGE, wait)]
    places = list(zip(queues, cursors, strict=True))
    pages = await asyncio.gather(*(store.events(*place, _PAGE) for place in places))
    if any(pages) or not wait:
        return pages
    waiting = [asyncio.ensure_future(store.events(*place, _PAGE, wait)) for place in places]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return [each.result() if each.done() else [] for each in waiting]
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _merged(pages: Sequence[Sequence[RecordedFact]]) -> list[tuple[int, RecordedFact]]:
    """Events by time, each with the number of its queue; those of one queue stay in order, also if
    a clock was set back."""
    found: list[tuple[int, int, RecordedFact]] = []
    for at, page in enumerate(pages):
        # A start that was written with its end is right before it: a cursor between them leads to
        # both.
        following = [*page[1:], *page[-1:]]
        ends = zip(page, following, strict=True)
        times = accumulate(((then if then.has_start else event).at_ms for event, then in ends), max)
        found += [(time, at, event) for time, event in zip(times, page, strict=True)]
    return [(at, event) for _, at, event in sorted(found, key=lambda each: each[0])]
