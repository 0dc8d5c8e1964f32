"""Calls the `on_dead` handler of a subscription with the events that went dead in its group."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.client.send.offloading import load
from headrace.client.topic.dead_event import DeadEvent, DeadHandler
from headrace.client.topic.subscription import Subscription
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.history import decode_history
from headrace.core.payload.kinds import named
from headrace.core.topic.event import read_event
from headrace.store.contract import DeadJob, DeadJobPage, Store
from headrace.worker.upkeep.dead_cursor import DeadCursor
from headrace.worker.upkeep.dead_walker import DeadWalker

log = logging.getLogger("headrace.worker")

_TRIES = 3
_FIRST_PAUSE = 0.2


class DeadHandlerCaller(DeadWalker):
    """Walks the dead list of each queue of a group. The handler is called at least once for each
    event: up to three times if it fails, and again if the worker dies meanwhile. Events stay in the
    dead list.

    An event that cannot be decoded is passed over if the handler takes the event itself; a handler
    that takes only the `DeadEvent` is called."""

    name = "dead event handler"
    scope = "on_dead"

    def __init__(
        self,
        store: Store,
        subscription: Subscription[..., Any],
        handler: DeadHandler,
        worker: str,
        patience: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store, subscription.queues, worker, patience, monotonic=monotonic)
        self._subscription = subscription
        self._handler = handler
        self.failed = 0
        """Events that were passed over."""

    async def _handle_page(
        self, queue: str, cursor: DeadCursor, page: DeadJobPage
    ) -> DeadCursor | None:
        """The cursor after a page; None if the worker stops, or another has taken over."""
        jobs, _ = cursor.unhandled(page.jobs)
        for job in reversed(jobs):
            if self.stopping:
                break
            after = await self._handle(queue, cursor, job)
            if after is None:
                return None
            cursor = after
        written = await self._cursors.write(queue, cursor)
        return cursor if written and not self.stopping else None

    async def _handle(self, queue: str, cursor: DeadCursor, job: DeadJob) -> DeadCursor | None:
        """The cursor after this event, to be written with the next event or at the end of the page;
        None if another worker has taken over."""
        for attempt in range(cursor.tries(job), _TRIES):
            if attempt:
                await asyncio.sleep(_FIRST_PAUSE * 2**attempt)
            # Before the try: an event that kills its worker must not be tried for ever.
            if not await self._cursors.write(queue, cursor.trying(job, attempt + 1)):
                return None
            if await self._ticket.kept(queue, self._called(queue, job)):
                break
        else:
            self.failed += 1
            log.error(
                "the function for dead events of %s failed %d times over event %s: it is passed "
                "over, and stays in the dead list", queue, _TRIES, ids.to_text(job.job_id),
                extra={"job": ids.to_text(job.job_id), "queue": queue},
            )  # fmt: skip
        return cursor.handled(job)

    async def _called(self, queue: str, job: DeadJob) -> bool:
        """Whether the handler returned, or there is nothing to call it with."""
        dead = dead_event(self._subscription, job)
        await dead.event.load(partial(load, self._subscription.offload))
        arguments = self._handler.arguments(dead)
        if arguments is None:
            log.warning(
                "event %s of %s cannot be decoded, so its function for dead events is not called; "
                "one that takes only a DeadEvent would be", dead.id, queue,
                extra={"job": dead.id, "queue": queue},
            )  # fmt: skip
            return True
        try:
            async with asyncio.timeout(self._subscription.declared.timeout):
                await self._call(*arguments)
        except Exception as error:
            log.warning(
                "the function for dead events failed over %s", dead.id, exc_info=error,
                extra={"job": dead.id, "queue": queue},
            )  # fmt: skip
            self.observe(self.scope, error, {"queue": queue, "id": dead.id})
            return False
        return True

    async def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._handler.is_async:
            await self._handler.function(*args, **kwargs)
        else:
            await asyncio.to_thread(self._handler.function, *args, **kwargs)


def dead_event(subscription: Subscription[..., Any], job: DeadJob) -> DeadEvent:
    """A dead event as its handler gets it."""
    topic, attempts = subscription.topic, decode_history(job.history).attempts
    return DeadEvent(
        id=ids.to_text(job.job_id),
        group=subscription.wants.group,
        reason=job.reason,
        error=attempts[-1].error_text if attempts else "",
        attempts=len(attempts),
        died_at=to_datetime(job.died_ms),
        raw=job.envelope,
        event=read_event(
            job.envelope,
            job.job_id,
            topic.name,
            topic.decode,
            named(topic.event_type),
        ),
    )
