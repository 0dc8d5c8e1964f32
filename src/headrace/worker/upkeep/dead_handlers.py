"""Gives the events that went dead in a group to the function that its topic declares for them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from headrace.client.dead import DeadEvent, DeadHandler
from headrace.client.subscription import Subscription
from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.job.history import decode_history
from headrace.core.topic.event import read_event
from headrace.core.topic.kinds import named
from headrace.store.contract import DeadJob, DeadJobPage, Store
from headrace.worker.queue_poller import POLL, Rounds
from headrace.worker.upkeep.dead_cursor import Book, Books, Ticket

log = logging.getLogger("headrace.worker")

_TRIES = 3
_FIRST_PAUSE = 0.2
_PAGE = 25


class Mourner(Rounds):
    """Walks the dead list of each of a group's queues from where the last worker got to, the oldest
    first; soon after a death in this worker, and every few seconds in case of others. Each event
    is given to the function at least once: again if it fails, up to three times, and again if the
    worker dies meanwhile. It stays in the dead list. The first time, that is all that are dead.

    An event that cannot be decoded is passed over if the function wants the event itself; a
    function that takes only the `DeadEvent` is given those too."""

    name = "mourner"
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
        super().__init__(subscription.queues, monotonic)
        self._store = store
        self._subscription = subscription
        self._handler = handler
        self._books = Books(store)
        self._ticket = Ticket(store, worker, patience)
        self.failed = 0
        """Events that were passed over."""

    async def look(self, queue: str) -> float:
        latest = (await self._store.dead(queue, limit=1)).jobs
        if not latest or await self._books.knows(queue, latest[0]):
            return POLL
        if not await self._ticket.taken(queue):
            return POLL
        try:
            await self._tell_all(queue)
        finally:
            await self._ticket.give_back(queue)
        return 0.0 if self._books.cached(queue).knows(latest[0]) else POLL

    async def _tell_all(self, queue: str) -> None:
        book: Book | None = await self._books.read(queue)
        while book is not None:
            latest = await self._store.dead(queue, "", _PAGE)
            older = await self._older(queue, latest, book)
            for cursor in reversed(older):
                page = await self._store.dead(queue, cursor, _PAGE)
                book = await self._tell_page(queue, book, page)
                if book is None:
                    return
            if not older:
                await self._tell_page(queue, book, latest)
                return
            # Again, for others have died meanwhile: the latest page may be further down now.

    async def _older(self, queue: str, page: DeadJobPage, book: Book) -> list[str]:
        """Where the pages after this one begin that hold what was not told of, the latest first.
        The events themselves, which may be large and many, are read again one page at a time."""
        cursors: list[str] = []
        holding = 0
        _, ended = book.untold(page.jobs)
        while page.cursor and not ended:
            cursors.append(page.cursor)
            page = await self._store.dead(queue, page.cursor, _PAGE)
            jobs, ended = book.untold(page.jobs)
            holding = len(cursors) if jobs else holding
        return cursors[:holding]

    async def _tell_page(self, queue: str, book: Book, page: DeadJobPage) -> Book | None:
        """The book with all of a page told of; None if the worker stops, or another has taken
        over."""
        jobs, _ = book.untold(page.jobs)
        for job in reversed(jobs):
            if self.stopping:
                break
            told = await self._tell(queue, book, job)
            if told is None:
                return None
            book = told
        written = await self._books.write(queue, book)
        return book if written and not self.stopping else None

    async def _tell(self, queue: str, book: Book, job: DeadJob) -> Book | None:
        """The book with this event told of, to be written with the next or at the end of the page;
        None if another worker has taken over."""
        for attempt in range(book.tries(job), _TRIES):
            if attempt:
                await asyncio.sleep(_FIRST_PAUSE * 2**attempt)
            # Before the try: an event that kills its worker must not be tried for ever.
            if not await self._books.write(queue, book.trying(job, attempt + 1)):
                return None
            if await self._ticket.kept(queue, self._given(queue, job)):
                break
        else:
            self.failed += 1
            log.error(
                "the function for dead events of %s failed %d times over event %s: it is passed "
                "over, and stays in the dead list", queue, _TRIES, ids.to_text(job.key),
                extra={"job": ids.to_text(job.key), "queue": queue},
            )  # fmt: skip
        return book.told(job)

    async def _given(self, queue: str, job: DeadJob) -> bool:
        """Whether the function has returned; also if there is nothing to give it."""
        dead = dead_event(self._subscription, job)
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
                await self._enter(*arguments)
        except Exception as error:
            log.warning(
                "the function for dead events failed over %s", dead.id, exc_info=error,
                extra={"job": dead.id, "queue": queue},
            )  # fmt: skip
            self.observe(self.scope, error, {"queue": queue, "id": dead.id})
            return False
        return True

    async def _enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._handler.is_async:
            await self._handler.function(*args, **kwargs)
        else:
            await asyncio.to_thread(self._handler.function, *args, **kwargs)


def dead_event(subscription: Subscription[..., Any], job: DeadJob) -> DeadEvent:
    """A dead event as its handler sees it."""
    topic, attempts = subscription.topic, decode_history(job.history).attempts
    return DeadEvent(
        id=ids.to_text(job.key),
        group=subscription.wants.group,
        reason=job.reason,
        error=attempts[-1].error_text if attempts else "",
        attempts=len(attempts),
        died_at=to_datetime(job.died_ms),
        raw=job.envelope,
        event=read_event(
            job.envelope,
            job.key,
            topic.name,
            topic.decode,
            named(topic.event_type),
        ),
    )
