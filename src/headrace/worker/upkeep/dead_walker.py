"""Walks the dead lists of queues, for what is done about each death."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence

from headrace.store.contract import DeadJobPage, Store
from headrace.worker.service import POLL, QueuePoller
from headrace.worker.upkeep.dead_cursor import DeadCursor, DeadCursors, DeadTicket

_PAGE = 25


class DeadWalker(QueuePoller):
    """Walks the dead list of each queue, oldest first, from the cursor that the last worker left:
    soon after a death in this worker, and every few seconds in case of others. The first walk
    covers all that are dead. Walkers of one queue have cursors of their own if they are for
    something else, such as a `task`."""

    def __init__(
        self,
        store: Store,
        queues: Sequence[str],
        worker: str,
        patience: float,
        task: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(queues, monotonic)
        self._store = store
        self._cursors = DeadCursors(store, task)
        self._ticket = DeadTicket(store, worker, patience, task)

    @abstractmethod
    async def _handle_page(
        self, queue: str, cursor: DeadCursor, page: DeadJobPage
    ) -> DeadCursor | None:
        """The cursor after a page, which is written; None if the worker stops, or another has taken
        over."""

    async def poll(self, queue: str) -> float:
        latest = (await self._store.dead(queue, limit=1)).jobs
        if not latest or await self._cursors.knows(queue, latest[0]):
            return POLL
        if not await self._ticket.taken(queue):
            return POLL
        try:
            await self._handle_all(queue)
        finally:
            await self._ticket.give_back(queue)
        return 0.0 if self._cursors.cached(queue).knows(latest[0]) else POLL

    async def _handle_all(self, queue: str) -> None:
        cursor: DeadCursor | None = await self._cursors.read(queue)
        while cursor is not None:
            latest = await self._store.dead(queue, "", _PAGE)
            older = await self._older(queue, latest, cursor)
            for place in reversed(older):
                page = await self._store.dead(queue, place, _PAGE)
                cursor = await self._handle_page(queue, cursor, page)
                if cursor is None:
                    return
            if not older:
                await self._handle_page(queue, cursor, latest)
                return
            # Again, since others have died meanwhile: the latest page may be further down now.

    async def _older(self, queue: str, page: DeadJobPage, cursor: DeadCursor) -> list[str]:
        """Where the older pages with unhandled deaths begin, latest first. The jobs, which may be
        large and many, are read again one page at a time."""
        places: list[str] = []
        holding = 0
        _, ended = cursor.unhandled(page.jobs)
        while page.cursor and not ended:
            places.append(page.cursor)
            page = await self._store.dead(queue, page.cursor, _PAGE)
            jobs, ended = cursor.unhandled(page.jobs)
            holding = len(places) if jobs else holding
        return places[:holding]
