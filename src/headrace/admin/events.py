"""What happened to jobs, as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.client.job import to_datetime
from headrace.core import ids
from headrace.errors import ConfigError, StoreUnavailable
from headrace.store.values import Event, Kind

if TYPE_CHECKING:
    from headrace.store.contract import Store

NOW = "$"
_PAGE = 1000
_WAIT = 5.0
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened to a job."""

    cursor: str
    """Reading on after this event begins here."""
    time: datetime
    queue: str
    kind: Kind
    """`lost` if events after the cursor are not kept any more: it tells of no job."""
    id: str
    task: str
    attempt: int
    """Zero where no run is meant."""
    duration: timedelta | None
    """How long the run took that this is the end of."""
    detail: str
    """Why a job is dead, what a blocked one waits for, in how many ms one runs again."""

    @classmethod
    def of(cls, queue: str, event: Event) -> JobEvent:
        fact = event.fact
        return cls(
            cursor=event.cursor,
            time=to_datetime(event.at_ms),
            queue=queue,
            kind=fact.kind,
            id=ids.to_text(fact.key) if fact.key else "",
            task=fact.task,
            attempt=fact.attempt,
            duration=timedelta(microseconds=fact.took_us) if fact.took_us else None,
            detail=fact.detail,
        )


async def read_events(
    store: Store, queue: str, after: str, *, follow: bool
) -> AsyncGenerator[JobEvent, None]:
    """Events after a cursor, in the order in which they were written."""
    cursor = await _cursor_of_now(store, queue) if after == NOW else after
    begun = False
    while True:
        try:
            events = await store.events(queue, cursor, _PAGE, _WAIT if follow else 0.0)
        except StoreUnavailable:
            # Who follows has the cursor: nothing is missed by waiting for the store to come back.
            if not (follow and begun):
                raise
            await asyncio.sleep(_PAUSE)
            continue
        except ValueError:
            # Which texts are cursors, only the store knows.
            raise ConfigError(f"{after!r} is not a cursor of events") from None
        begun = True
        for event in events:
            cursor = event.cursor
            yield JobEvent.of(queue, event)
        if not events and not follow:
            return


async def _cursor_of_now(store: Store, queue: str) -> str:
    (event,) = await store.events(queue, NOW)
    return event.cursor
