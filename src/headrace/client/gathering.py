"""Sends to one place share round trips: those that come while one is under way go together next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from headrace.core.job import ids
from headrace.core.job.parcel import Parcel
from headrace.errors import EnqueueUnknown, HeadraceError, SendError

A_co = TypeVar("A_co", covariant=True)
A = TypeVar("A")

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024


class Deposit(Protocol[A_co]):
    """Puts parcels into the store; the answer says what is to be known of some of them, by
    position. `named` says that a caller chose some of the ids."""

    async def __call__(self, parcels: Sequence[Parcel], named: bool, /) -> Mapping[int, A_co]: ...


class Gathering(Generic[A]):
    """The sends to one place, in order. A lone one goes out at once."""

    def __init__(self, deposit: Deposit[A]) -> None:
        self._deposit = deposit
        self._busy = False
        self._gathered: _Gathered[A] = _Gathered()
        self._flushing: asyncio.Task[None] | None = None

    async def send(self, parcels: Sequence[Parcel], named: bool) -> Mapping[int, A]:
        """What is to be known of these parcels, by their positions."""
        if self._busy:
            return await self._gathered.join(parcels, named)
        self._busy = True
        try:
            return await self._deposit(parcels, named)
        finally:
            if self._gathered.parcels:
                self._flushing = asyncio.create_task(self._flush())
            else:
                self._busy = False

    async def _flush(self) -> None:
        try:
            while self._gathered.parcels:
                gathered, self._gathered = self._gathered, _Gathered()
                await self._send_gathered(gathered)
        finally:
            self._busy = False

    async def _send_gathered(self, gathered: _Gathered[A]) -> None:
        try:
            answer = await self._deposit(gathered.parcels, gathered.named)
        except HeadraceError as error:
            gathered.failed(error)
        except BaseException:
            gathered.failed(SendError("the event loop ended before the job was sent"))
            raise
        else:
            gathered.sent(answer)


class _Gathered(Generic[A]):
    """Sends that wait for the one under way."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.named = False
        self._waiters: list[tuple[asyncio.Future[Mapping[int, A]], Sequence[Parcel]]] = []

    async def join(self, parcels: Sequence[Parcel], named: bool) -> Mapping[int, A]:
        self.parcels += parcels
        self.named |= named
        waiter: asyncio.Future[Mapping[int, A]] = asyncio.get_running_loop().create_future()
        self._waiters.append((waiter, parcels))
        return await waiter

    def sent(self, answer: Mapping[int, A]) -> None:
        """Each sender is told of its own positions."""
        start = 0
        for waiter, parcels in self._waiters:
            if not waiter.done():
                waiter.set_result(_within(answer, start, len(parcels)) if answer else {})
            start += len(parcels)

    def failed(self, error: HeadraceError) -> None:
        """Each sender is told of its own jobs."""
        for waiter, parcels in self._waiters:
            if waiter.done():
                continue
            if isinstance(error, EnqueueUnknown):
                waiter.set_exception(EnqueueUnknown(texts(parcels), str(error.__cause__)))
            else:
                waiter.set_exception(error)


def _within(answer: Mapping[int, A], start: int, count: int) -> dict[int, A]:
    positions = range(start, start + count)
    return {at - start: answer[at] for at in positions if at in answer}


def bounded(parcels: Iterable[Parcel]) -> Iterator[list[Parcel]]:
    """The parcels in batches that are not too much for one step of a store."""
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


def texts(parcels: Sequence[Parcel]) -> list[str]:
    """The ids of parcels, for people."""
    return [ids.to_text(parcel.key) for parcel in parcels]
