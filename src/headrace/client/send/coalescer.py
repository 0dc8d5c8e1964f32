"""Sends to one queue or log share round trips: those made while one is under way go together."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from headrace.client.send.unsent import Interrupted
from headrace.core.job.parcel import Parcel
from headrace.errors import HeadraceError, SendError

A = TypeVar("A")

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024


class Coalescer(ABC, Generic[A]):
    """The sends to one queue or log, in order. A lone one goes out at once."""

    def __init__(self) -> None:
        self._busy = False
        self._next: _NextBatch[A] = _NextBatch()
        self._flushing: asyncio.Task[None] | None = None

    async def send(self, parcels: Sequence[Parcel], custom_ids: bool) -> Mapping[int, A]:
        """What the store answers for these parcels, by position. `custom_ids` says that a caller
        chose some of the ids."""
        if self._busy:
            return await self._next.join(parcels, custom_ids)
        self._busy = True
        try:
            return await self._put(parcels, custom_ids)
        except Interrupted as interrupted:
            error = interrupted.error_of(parcels)
            raise error from error.__cause__
        finally:
            if self._next.parcels:
                self._flushing = asyncio.create_task(self._flush())
            else:
                self._busy = False

    @abstractmethod
    def _put(self, parcels: Sequence[Parcel], custom_ids: bool) -> Awaitable[Mapping[int, A]]:
        """Put parcels of any number and size into the store."""

    async def _flush(self) -> None:
        try:
            while self._next.parcels:
                batch, self._next = self._next, _NextBatch()
                await self._send_batch(batch)
        finally:
            self._busy = False

    async def _send_batch(self, batch: _NextBatch[A]) -> None:
        try:
            answer = await self._put(batch.parcels, batch.custom_ids)
        except Interrupted as interrupted:
            batch.failed(interrupted)
        except HeadraceError as error:
            batch.failed(Interrupted(0, {}, error))
        except BaseException:
            ended = SendError("the event loop ended before the job was sent")
            batch.failed(Interrupted(0, {}, ended))
            raise
        else:
            batch.sent(answer)


class _NextBatch(Generic[A]):
    """Sends that wait for the one under way."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.custom_ids = False
        self._waiters: list[tuple[asyncio.Future[Mapping[int, A]], Sequence[Parcel]]] = []

    async def join(self, parcels: Sequence[Parcel], custom_ids: bool) -> Mapping[int, A]:
        self.parcels += parcels
        self.custom_ids |= custom_ids
        waiter: asyncio.Future[Mapping[int, A]] = asyncio.get_running_loop().create_future()
        self._waiters.append((waiter, parcels))
        return await waiter

    def sent(self, answer: Mapping[int, A]) -> None:
        """Give each sender the answer for its own parcels."""
        start = 0
        for waiter, parcels in self._waiters:
            if not waiter.done():
                waiter.set_result(_within(answer, start, len(parcels)) if answer else {})
            start += len(parcels)

    def failed(self, interrupted: Interrupted) -> None:
        """Raise the error in each sender, naming only its own jobs; those whose jobs all had an
        answer before get that."""
        start = 0
        for waiter, parcels in self._waiters:
            end = start + len(parcels)
            if not waiter.done():
                if end <= interrupted.done:
                    waiter.set_result(_within(interrupted.answer, start, len(parcels)))
                else:
                    waiter.set_exception(interrupted.error_of(parcels, start))
            start = end


def _within(answer: Mapping[int, A], start: int, count: int) -> dict[int, A]:
    positions = range(start, start + count)
    return {at - start: answer[at] for at in positions if at in answer}


def bounded(parcels: Iterable[Parcel]) -> Iterator[list[Parcel]]:
    """The parcels in batches that one step of a store can take."""
    batch: list[Parcel] = []
    size = 0
    for parcel in parcels:
        if batch and (len(batch) >= BATCH or size + len(parcel.envelope) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(parcel)
        size += len(parcel.envelope)
    if batch:
        yield batch
