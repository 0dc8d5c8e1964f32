"""Puts jobs and events into the store. Sends made at the same moment share one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headrace.client.gathering import Gathering, bounded, texts
from headrace.core.job.ids import JobKey
from headrace.core.job.parcel import Parcel
from headrace.errors import (
    EnqueueUnknown,
    HeadraceError,
    StoreError,
    StoreUnavailable,
    TopicFull,
)
from headrace.store.contract import Store
from headrace.store.topics import Bound
from headrace.store.values import IdempotencyKey

T = TypeVar("T")

# A store that restarts is back within seconds; who sends should not have to know.
_TRIES = 6
_FIRST_PAUSE = 0.05

Instead = Mapping[int, JobKey]
"""Positions of parcels that were not added, each with the job that is there instead."""
Missing = Mapping[int, HeadraceError]
"""Positions of events that were not published, or may not have been, each with what is why."""
_NONE_MISSING: Missing = {}


class Sender:
    """One event loop's way to append and publish. A lone send goes out at once; those that come
    while one is under way go together in the next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[str, Gathering[JobKey]] = {}
        self._logs: dict[str, Gathering[HeadraceError]] = {}

    async def send(self, queue: str, parcels: Sequence[Parcel], *, named: bool = False) -> Instead:
        """Return when the jobs are stored, with what is there instead of those that were not
        added. `named` says that a caller chose some of the ids, so that jobs which already ended
        under them are looked for."""
        gathering = self._queues.get(queue)
        if gathering is None:
            gathering = self._queues[queue] = Gathering(_Queue(self._store, queue).append)
        return await gathering.send(parcels, named)

    async def publish(
        self,
        log: str,
        events: Sequence[Parcel],
        *,
        bound: Bound | None = None,
        named: bool = False,
    ) -> Missing:
        """Return when the events are in the log, in their order, with what is wrong with those that
        are not: if one is missing, so are all after it. `bound` is always the same for a log;
        `named` says that an id may be there already."""
        gathering = self._logs.get(log)
        if gathering is None:
            gathering = self._logs[log] = Gathering(_Log(self._store, log, bound).publish)
        return await gathering.send(events, named)


class _Queue:
    """Where the jobs of one queue are appended."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue

    async def append(self, parcels: Sequence[Parcel], named: bool) -> Instead:
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
        async def append(repeat: bool, idempotency: IdempotencyKey) -> Instead:
            return await self._store.append(
                self._queue, parcels, repeat=repeat, idempotency=idempotency
            )

        return await _surely(self._store, append, parcels, named)


class _Log:
    """Where the events of one log are published."""

    def __init__(self, store: Store, log: str, bound: Bound | None) -> None:
        self._store = store
        self._log = log
        self._bound = bound

    async def publish(self, events: Sequence[Parcel], named: bool) -> Missing:
        """Batch after batch until one fails: what comes later must not be before it in the log."""
        done = 0
        for batch in bounded(events):
            try:
                taken = await self._publish(batch, named)
            except EnqueueUnknown as error:
                end = done + len(batch)
                missing: dict[int, HeadraceError] = dict.fromkeys(range(done, end), error)
                why = StoreUnavailable(f"not published, after others failed: {error}")
                return missing | dict.fromkeys(range(end, len(events)), why)
            except HeadraceError as error:
                return dict.fromkeys(range(done, len(events)), error)
            done += taken
            if taken < len(batch):
                return dict.fromkeys(range(done, len(events)), self._full())
        return _NONE_MISSING

    async def _publish(self, events: Sequence[Parcel], named: bool) -> int:
        async def publish(repeat: bool, idempotency: IdempotencyKey) -> int:
            answer = await self._store.publish(
                self._log, events, bound=self._bound, repeat=repeat, idempotency=idempotency
            )
            return answer.taken

        return await _surely(self._store, publish, events, named)

    def _full(self) -> TopicFull:
        topic = self._log.removeprefix("@").partition("#")[0]
        return TopicFull(topic, self._bound.most if self._bound else 0)


async def _surely(
    store: Store,
    put: Callable[[bool, IdempotencyKey], Awaitable[T]],
    parcels: Sequence[Parcel],
    named: bool,
) -> T:
    """Put parcels into the store, and again after a lost answer: they are put there once."""
    idempotency = IdempotencyKey()
    try:
        return await _put_again(lambda repeat: put(repeat, idempotency), parcels, named)
    except (EnqueueUnknown, asyncio.CancelledError):
        store.give_up(idempotency)
        raise


async def _put_again(
    put: Callable[[bool], Awaitable[T]], parcels: Sequence[Parcel], named: bool
) -> T:
    unsure, pause = False, _FIRST_PAUSE
    left = _TRIES
    while True:
        try:
            return await put(named or unsure)
        except StoreError as error:
            passes = isinstance(error, StoreUnavailable)
            left -= 1
            unsure |= isinstance(error, StoreUnavailable) and error.sent
            if not left or not passes:
                # Whatever this try came to, an earlier one may have been carried out.
                if unsure:
                    raise EnqueueUnknown(texts(parcels), str(error)) from error
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
