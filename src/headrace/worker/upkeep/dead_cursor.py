"""How far `on_dead` has got in a dead list: kept in the store, written by one worker at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.core.job.ids import JobId
from headrace.store.contract import DeadJob, Store

T = TypeVar("T")

_SPACE = "on_dead"
_TICKETS = "on_dead_tickets"
_LEAST_KEPT = 120 * 86_400.0
# At most this many deaths of one millisecond are known by their ids.
_NAMED = 100


class DeadCursor(msgspec.Struct, array_like=True, frozen=True):
    """Handled: all deaths before `until_ms`, and those at `until_ms` listed in `then`, as others
    of that millisecond may come later. If there are too `many` to list, `then` has the latest, and
    all that stand before one of these in the list are handled too. `now` is the event at hand, and
    `tries_now` counts its tries."""

    until_ms: int = 0
    then: tuple[JobId, ...] = ()
    now: JobId = b""
    now_ms: int = 0
    tries_now: int = 0
    many: bool = False

    def knows(self, job: DeadJob) -> bool:
        """Whether this death is certainly handled; does not read the list."""
        if job.died_ms == self.until_ms:
            return job.job_id in self.then
        return job.died_ms < self.until_ms

    def unhandled(self, jobs: Sequence[DeadJob]) -> tuple[list[DeadJob], bool]:
        """The unhandled ones of a page, latest first; and whether all older ones are handled."""
        found = []
        for job in jobs:
            if not self.knows(job):
                found.append(job)
            elif self.many or job.died_ms < self.until_ms:
                return found, True
        return found, False

    def tries(self, job: DeadJob) -> int:
        """How often this death was tried."""
        return self.tries_now if (self.now, self.now_ms) == (job.job_id, job.died_ms) else 0

    def trying(self, job: DeadJob, tries: int) -> DeadCursor:
        return DeadCursor(self.until_ms, self.then, job.job_id, job.died_ms, tries, self.many)

    def handled(self, job: DeadJob) -> DeadCursor:
        goes_on = job.died_ms == self.until_ms
        then = (*self.then, job.job_id) if goes_on else (job.job_id,)
        many = len(then) > _NAMED or (goes_on and self.many)
        return DeadCursor(job.died_ms, then[-_NAMED:], many=many)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DeadCursor).decode
_NEW = DeadCursor()


class DeadCursors:
    """The cursors in the queues of a group, or of a task, as this worker last read or wrote
    them."""

    def __init__(self, store: Store, task: str = "") -> None:
        self._store = store
        self._task = task
        self._known: dict[str, tuple[DeadCursor, bytes | None]] = {}

    def cached(self, queue: str) -> DeadCursor:
        return self._known.get(queue, (_NEW, None))[0]

    async def knows(self, queue: str, job: DeadJob) -> bool:
        """Whether a death is handled; asks the store only if that is not known here."""
        return self.cached(queue).knows(job) or (await self.read(queue)).knows(job)

    async def read(self, queue: str) -> DeadCursor:
        data = (await self._store.kv_all(_SPACE)).get(_name(queue, self._task))
        try:
            cursor = _NEW if data is None else _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # Handled twice is better than not at all.
            cursor = _NEW
        self._known[queue] = cursor, data
        return cursor

    async def write(self, queue: str, cursor: DeadCursor) -> bool:
        """Replace the cursor that was read or written last; False if another worker has written
        meanwhile."""
        known, before = self._known.get(queue, (_NEW, None))
        if cursor == known:
            return True
        data = _encode(cursor)
        name = _name(queue, self._task)
        # Longer than the dead are kept: one that expired earlier would have them handled twice.
        kept = self._store.history_rules.queues.of(queue).dead.keep_ms / 1000
        ttl = max(4 * kept, _LEAST_KEPT)
        if not await self._store.kv_set(_SPACE, name, data, ttl=ttl, expected=before):
            return False
        self._known[queue] = cursor, data
        return True


class DeadTicket:
    """Lets about one worker at a time walk the dead list of a queue. That each event is handled
    does not depend on it."""

    def __init__(self, store: Store, worker: str, patience: float, task: str = "") -> None:
        self._store = store
        self._task = task
        self._worker = worker.encode()
        self._ttl = max(patience, 1.0)

    async def taken(self, queue: str) -> bool:
        return await self._note(queue, self._worker, None) or await self._renewed(queue)

    async def give_back(self, queue: str) -> None:
        await self._note(queue, None, self._worker)

    async def kept(self, queue: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; renews the ticket meanwhile."""
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait((task,), timeout=self._ttl / 3))[0]:
                await self._renewed(queue)
            return task.result()
        finally:
            # Also if it has failed too: asyncio warns of an exception that nobody reads.
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _renewed(self, queue: str) -> bool:
        return await self._note(queue, self._worker, self._worker)

    async def _note(self, queue: str, value: bytes | None, expected: bytes | None) -> bool:
        name, ttl = _name(queue, self._task), None if value is None else self._ttl
        return await self._store.kv_set(_TICKETS, name, value, ttl=ttl, expected=expected)


def _name(queue: str, task: str) -> str:
    # Neither name has a space. Each task has its own: a worker of another version of the program,
    # which does not know a handler, must not pass over its deaths.
    return f"{queue} {task}" if task else queue
