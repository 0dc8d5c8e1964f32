"""Puts jobs into the store. Sends made at the same moment share one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from headrace.core import ids
from headrace.core.call import Parcel
from headrace.core.ids import JobKey
from headrace.errors import EnqueueUnknown, HeadraceError, SendError, StoreUnavailable
from headrace.store.contract import Store

T = TypeVar("T")

BATCH = 500
BATCH_BYTES = 8 * 1024 * 1024
# A store that restarts is back within seconds; who sends should not have to know.
_TRIES = 6
_FIRST_PAUSE = 0.05

Instead = Mapping[int, JobKey]
"""Positions of parcels that were not added, each with the job that is there instead."""
_ALL_ADDED: Instead = {}


class Sender:
    """One event loop's way to append. A lone send goes out at once; those that come while one is
    under way go together in the next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lanes: dict[str, _Lane] = {}

    async def send(self, queue: str, parcels: Sequence[Parcel], *, named: bool = False) -> Instead:
        """Return when the jobs are stored, with what is there instead of those that were not
        added. `named` says that a caller chose some of the ids, so that jobs which already ended
        under them are looked for."""
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = _Lane(self._store, queue)
        return await lane.send(parcels, named)


class _Lane:
    """The sends to one queue, in order."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        self._busy = False
        self._gathered = _Gathered()
        self._flushing: asyncio.Task[None] | None = None

    async def send(self, parcels: Sequence[Parcel], named: bool) -> Instead:
        if self._busy:
            return await self._gathered.join(parcels, named)
        self._busy = True
        try:
            return await self._append_all(parcels, named)
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

    async def _send_gathered(self, gathered: _Gathered) -> None:
        try:
            instead = await self._append_all(gathered.parcels, gathered.named)
        except HeadraceError as error:
            gathered.failed(error)
        except BaseException:
            gathered.failed(SendError("the event loop ended before the job was sent"))
            raise
        else:
            gathered.sent(instead)

    async def _append_all(self, parcels: Sequence[Parcel], named: bool) -> Instead:
        """In batches that are bounded both ways: many small jobs, or a few large ones."""
        if len(parcels) == 1:
            return await self._append(parcels, named)
        instead: dict[int, JobKey] = {}
        done = 0
        for batch in bounded(parcels):
            for position, key in (await self._append(batch, named)).items():
                instead[done + position] = key
            done += len(batch)
        return instead

    async def _append(self, parcels: Sequence[Parcel], named: bool) -> Instead:
        """Append, and again after a lost answer: the store tells what it has already."""
        unsure, pause = False, _FIRST_PAUSE
        left = _TRIES
        while True:
            try:
                return await self._store.append(self._queue, parcels, repeat=named or unsure)
            except StoreUnavailable as error:
                left -= 1
                unsure |= error.sent
                if not left:
                    if unsure:
                        raise EnqueueUnknown(_texts(parcels), str(error)) from error
                    raise
            await asyncio.sleep(pause)
            pause *= 2


async def insist(work: Callable[[], Awaitable[T]]) -> T:
    """The result of something that may be done twice, through whatever a store does meanwhile."""
    pause = _FIRST_PAUSE
    for _ in range(_TRIES - 1):
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(pause)
            pause *= 2
    return await work()


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


class _Gathered:
    """Sends that wait for the one under way."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.named = False
        self._waiters: list[tuple[asyncio.Future[Instead], Sequence[Parcel]]] = []

    async def join(self, parcels: Sequence[Parcel], named: bool) -> Instead:
        self.parcels += parcels
        self.named |= named
        waiter: asyncio.Future[Instead] = asyncio.get_running_loop().create_future()
        self._waiters.append((waiter, parcels))
        return await waiter

    def sent(self, instead: Instead) -> None:
        """Each sender is told of its own positions."""
        start = 0
        for waiter, parcels in self._waiters:
            if not waiter.done():
                waiter.set_result(_within(instead, start, len(parcels)) if instead else _ALL_ADDED)
            start += len(parcels)

    def failed(self, error: HeadraceError) -> None:
        """Each sender is told of its own jobs."""
        for waiter, parcels in self._waiters:
            if waiter.done():
                continue
            if isinstance(error, EnqueueUnknown):
                waiter.set_exception(EnqueueUnknown(_texts(parcels), str(error.__cause__)))
            else:
                waiter.set_exception(error)


def _within(instead: Instead, start: int, count: int) -> Instead:
    positions = range(start, start + count)
    return {at - start: instead[at] for at in positions if at in instead}


def _texts(parcels: Sequence[Parcel]) -> list[str]:
    return [ids.to_text(parcel.key) for parcel in parcels]
