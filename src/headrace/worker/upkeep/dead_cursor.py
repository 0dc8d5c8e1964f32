"""How far the dead events of a group have been told of: kept in the store, written by one worker at
a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.core.bounds import DEAD_KEPT_DAYS
from headrace.core.job.ids import JobKey
from headrace.store.contract import DeadJob, Store

T = TypeVar("T")

_SPACE = "on_dead"
_TICKETS = "on_dead_tickets"
# Longer than the dead are kept, so that none of them is told of twice when it is gone.
_KEPT = 4 * DEAD_KEPT_DAYS * 86_400.0


# Of those that died in one millisecond, as many are known by name.
_NAMED = 100


class Book(msgspec.Struct, array_like=True, frozen=True):
    """All that died before `until_ms` have been told of, and of those of that millisecond the ones
    in `then`: another may join them anywhere in the list. If they were too `many` to name them all,
    `then` has the latest, and what is before one of them in the list was told of, too. `now` is the
    event at hand, which is tried for the `tries_now`-th time."""

    until_ms: int = 0
    then: tuple[JobKey, ...] = ()
    now: JobKey = b""
    now_ms: int = 0
    tries_now: int = 0
    many: bool = False

    def knows(self, job: DeadJob) -> bool:
        """Whether it is certain, without a look at the list, that this death was told of."""
        if job.died_ms == self.until_ms:
            return job.key in self.then
        return job.died_ms < self.until_ms

    def untold(self, jobs: Sequence[DeadJob]) -> tuple[list[DeadJob], bool]:
        """Those of a page, the latest first, that were not told of; and whether all further ones
        were."""
        found = []
        for job in jobs:
            if not self.knows(job):
                found.append(job)
            elif self.many or job.died_ms < self.until_ms:
                return found, True
        return found, False

    def tries(self, job: DeadJob) -> int:
        """How often this death has been tried to be told of."""
        return self.tries_now if (self.now, self.now_ms) == (job.key, job.died_ms) else 0

    def trying(self, job: DeadJob, tries: int) -> Book:
        return Book(self.until_ms, self.then, job.key, job.died_ms, tries, self.many)

    def told(self, job: DeadJob) -> Book:
        goes_on = job.died_ms == self.until_ms
        then = (*self.then, job.key) if goes_on else (job.key,)
        many = len(then) > _NAMED or (goes_on and self.many)
        return Book(job.died_ms, then[-_NAMED:], many=many)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Book).decode
_NEW = Book()


class Books:
    """The books of a group's queues."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[Book, bytes | None]] = {}

    def cached(self, queue: str) -> Book:
        return self._known.get(queue, (_NEW, None))[0]

    async def knows(self, queue: str, job: DeadJob) -> bool:
        """Whether a death was told of; the store is asked only if it is not known here."""
        return self.cached(queue).knows(job) or (await self.read(queue)).knows(job)

    async def read(self, queue: str) -> Book:
        data = (await self._store.kv_all(_SPACE)).get(queue)
        try:
            book = _NEW if data is None else _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # Told of twice is better than not at all.
            book = _NEW
        self._known[queue] = book, data
        return book

    async def write(self, queue: str, book: Book) -> bool:
        """Let this follow the book that was read or written last; False if another worker has
        written meanwhile."""
        known, before = self._known.get(queue, (_NEW, None))
        if book == known:
            return True
        data = _encode(book)
        if not await self._store.kv_set(_SPACE, queue, data, ttl=_KEPT, expected=before):
            return False
        self._known[queue] = book, data
        return True


class Ticket:
    """Lets about one worker at a time tell of the dead of a queue. That each is told of does not
    depend on it."""

    def __init__(self, store: Store, worker: str, patience: float) -> None:
        self._store = store
        self._worker = worker.encode()
        self._ttl = max(patience, 1.0)

    async def taken(self, queue: str) -> bool:
        return await self._note(queue, self._worker, None) or await self._renewed(queue)

    async def give_back(self, queue: str) -> None:
        await self._note(queue, None, self._worker)

    async def kept(self, queue: str, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives; the ticket is renewed meanwhile."""
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait((task,), timeout=self._ttl / 3))[0]:
                await self._renewed(queue)
            return task.result()
        finally:
            # Also if it has just failed, as the renewal has: somebody must see it.
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _renewed(self, queue: str) -> bool:
        return await self._note(queue, self._worker, self._worker)

    async def _note(self, queue: str, value: bytes | None, expected: bytes | None) -> bool:
        return await self._store.kv_set(
            _TICKETS, queue, value, ttl=None if value is None else self._ttl, expected=expected
        )
