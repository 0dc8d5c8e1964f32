"""A consumer loop that is run by hand: each step is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.errors import StoreError
from headrace.worker.consume.consumer_loop import ConsumerLoop
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.consume.reader import QueueReader
from headrace.worker.run.run import Run

Wanted = Callable[[LeasedDelivery], bool]

_LOOK = 0.02


class HandReader(QueueReader):
    """Takes what is there instead of waiting for it."""

    _aside: tuple[LeasedDelivery, ...] = ()
    """Read, and not wanted so far; handed back at the end."""
    _has_looked = False

    async def take(self, limit: int, wanted: Wanted) -> Sequence[LeasedDelivery]:
        """Start up to `limit` jobs that wait now and are wanted, abandoned ones first, and return
        them."""
        chosen = [each for each in self._aside if wanted(each)][:limit]
        while not chosen and (found := await self._found(limit)):
            self._held.update(found)
            self._aside += tuple(found)
            chosen = [each for each in found if wanted(each)]
        self._aside = tuple(each for each in self._aside if each not in chosen)
        self._hand_over(chosen)
        return chosen

    async def _found(self, limit: int) -> Sequence[LeasedDelivery]:
        if self._in_doubt:
            # The read that failed may have leased something.
            self._in_doubt = False
            if found := await self._consumer.recover(self._held):
                return found
        try:
            return await self._read_now(limit)
        except StoreError:
            self._in_doubt = True
            raise

    async def _read_now(self, limit: int) -> Sequence[LeasedDelivery]:
        room = Capacity(limit, limit, limit)
        if self._reclaimer is not None:
            for _ in range(1 if self._has_looked else 2):
                found = await self._came(self._reclaimer.step(limit, room), self._asked())
                if found:
                    return found
                if not self._has_looked:
                    self._has_looked = True
                    self._reclaimer.look_now()
        return await self._came(self._consumer.fetch(limit, 0.0, room), self._asked())


class HandLoop(ConsumerLoop):
    """Has the parts of any other loop. None of them runs by itself."""

    new_reader = HandReader
    _reader: HandReader

    async def take(self, wanted: Wanted) -> int:
        """Begin one job, or as many as its batch can take; how many."""
        taken = len(await self._reader.take(1, wanted))
        while batch := self._filling():
            more = await self._reader.take(
                (batch[0].task.declared.batch or 1) - len(batch),
                lambda each: wanted(each) and _is_like(batch[0], each),
            )
            taken += len(more)
            if not more:
                break
        self._executor.in_flight.flush()
        return taken

    def _filling(self) -> list[Run]:
        """The jobs of a batch that has room for more."""
        waiting = [run for run in self._executor.in_flight.waiting() if run.task.declared.batch]
        return [run for run in waiting if run.task is waiting[0].task]

    async def settle(self) -> None:
        """Write the outcomes that are known."""
        while self._settler.backlog:
            await self._settler.step()

    @property
    def is_busy(self) -> bool:
        """Whether anything that was taken has not ended, or its outcome is not written."""
        in_flight = self._executor.in_flight
        return bool(in_flight.busy or in_flight.waiting() or self._settler.backlog)

    async def go_on(self) -> None:
        """Return when an outcome is known, or after a moment."""
        if futures := self._executor.in_flight.busy:
            await asyncio.wait(futures, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)


class HandLoops(ConsumerLoops):
    new_loop = HandLoop


def _is_like(run: Run, delivery: LeasedDelivery) -> bool:
    return id_and_task(delivery.envelope)[1] == run.envelope.task.encode()
