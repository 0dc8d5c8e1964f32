"""Appends the jobs of one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NoReturn

from headrace.client.send.coalescer import Coalescer, bounded
from headrace.client.send.refusal import full_error
from headrace.client.send.tries import Tries
from headrace.client.send.unsent import TROUBLE, Interrupted, Unsent, texts
from headrace.core.bounds import Overflow
from headrace.core.confirming import UNCONFIRMED
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.sends import Sends
from headrace.errors import EnqueueUnknown, HeadraceError, StoreError
from headrace.store.contract import Store
from headrace.store.queue_values import NO_ROOM, REFUSED, QueueBound
from headrace.store.values import IdempotencyKey

_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.5

Instead = Mapping[int, JobId]
"""Index of each parcel that was not added, with the id of the existing job."""
RoomWait = Callable[[str], AbstractAsyncContextManager[None]]
"""Makes what a sender enters while it waits for room in a queue, given its name."""


def without_end(queue: str) -> AbstractAsyncContextManager[None]:
    """A wait for room takes as long as it takes."""
    return nullcontext()


class QueueSender(Coalescer[JobId]):
    """Appends the jobs of one queue."""

    confirm = UNCONFIRMED

    def __init__(
        self, store: Store, queue: str, sends: Sends, bound: QueueBound | None = None
    ) -> None:
        super().__init__()
        self._store = store
        self._queue = queue
        self._sends = sends
        self._bound = bound

    def send_now(self, parcels: Sequence[Parcel], custom_ids: bool) -> Coroutine[Any, Any, Instead]:
        """As `send`; a bounded queue may wait there."""
        return self.send(parcels, custom_ids)

    def _put(self, parcels: Sequence[Parcel], custom_ids: bool) -> Awaitable[Instead]:
        put = (self._append if len(parcels) == 1 else self._append_all)(parcels, custom_ids)
        if self._sends.on:
            return self._sends.timed(self._queue, parcels, put, REFUSED.__contains__)
        return put

    async def _append_all(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        """In batches that are bounded both ways: many small jobs, or a few large ones."""
        instead: dict[int, JobId] = {}
        done = 0
        for batch in bounded(parcels):
            try:
                answer = await self._append(batch, custom_ids)
            except HeadraceError as error:
                raise Interrupted(done, instead, error) from error
            for position, job_id in answer.items():
                instead[done + position] = job_id
            done += len(batch)
        return instead

    async def _append(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        """Append in one step, and again after a lost answer: the jobs are added once."""
        tries: Tries | None = None
        idempotency = IdempotencyKey()
        try:
            while True:
                try:
                    return await self._store.append(
                        self._queue,
                        parcels,
                        may_exist=custom_ids or (tries is not None and tries.unsure),
                        idempotency=idempotency,
                        bound=self._bound,
                        confirm=self.confirm,
                    )
                except StoreError as error:
                    tries = tries or Tries(parcels)
                    pause = tries.pause_after(error)
                await asyncio.sleep(pause)
        except (EnqueueUnknown, asyncio.CancelledError):
            self._store.give_up(idempotency)
            raise


class BoundedQueueSender(QueueSender):
    """Appends the jobs of a queue that may be full: waits until there is room, or raises
    `QueueFull` with those that were not stored, as `overflow` says."""

    def __init__(
        self, store: Store, queue: str, sends: Sends, bound: QueueBound, overflow: Overflow
    ) -> None:
        super().__init__(store, queue, sends, bound)
        self._limits = bound
        self._overflow = overflow
        self.room_wait: RoomWait = without_end

    async def send(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        if self._overflow != "block":
            return await self.send_now(parcels, custom_ids)
        instead: dict[int, JobId] = {}
        left = await self._try(parcels, instead, range(len(parcels)), custom_ids)
        if left:
            async with self.room_wait(self._queue):
                await self._send_rest(parcels, instead, left, custom_ids)
        self._check(parcels, instead)
        return instead

    async def _send_rest(
        self,
        parcels: Sequence[Parcel],
        instead: dict[int, JobId],
        left: Sequence[int],
        custom_ids: bool,
    ) -> None:
        pause = _FIRST_WAIT
        while left:
            await asyncio.sleep(pause)
            before, left = left, await self._try(parcels, instead, left, custom_ids)
            # Nobody says when there is room: with many senders, that would cost more than asking.
            pause = _FIRST_WAIT if len(left) < len(before) else min(pause * 2, _LONGEST_WAIT)

    async def _try(
        self,
        parcels: Sequence[Parcel],
        instead: dict[int, JobId],
        left: Sequence[int],
        custom_ids: bool,
    ) -> list[int]:
        """Send the parcels that are left, and note the answer; returns those without room."""
        sent = [parcels[at] for at in left]
        try:
            answer = await super().send(sent, custom_ids)
        except TROUBLE as error:
            self._stop(error, parcels, instead, sent)
        instead |= {left[at]: job_id for at, job_id in answer.items() if job_id != NO_ROOM}
        return [left[at] for at, job_id in answer.items() if job_id == NO_ROOM]

    def _stop(
        self,
        error: HeadraceError,
        parcels: Sequence[Parcel],
        instead: Instead,
        sent: Sequence[Parcel],
    ) -> NoReturn:
        """Raise the error of a sender that waits, which has sent these last."""
        refused = [parcels[at] for at, job_id in instead.items() if job_id in REFUSED]
        unsent = Unsent()
        unsent.skip(texts(refused))
        unsent.fail(error, texts(sent))
        unsent.check(stored=len(refused) + len(sent) < len(parcels))
        raise error

    async def send_now(self, parcels: Sequence[Parcel], custom_ids: bool) -> Instead:
        answer = await super().send(parcels, custom_ids)
        self._check(parcels, answer)
        return answer

    def _check(self, parcels: Sequence[Parcel], answer: Instead) -> None:
        if refused := [parcels[at] for at, job_id in answer.items() if job_id in REFUSED]:
            is_full = NO_ROOM in answer.values()
            raise full_error(self._queue, self._limits, refused, self._overflow, is_full)
