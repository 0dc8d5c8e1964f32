"""Follows the logs of a topic from now on, for one process, leaving nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress

from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.tally import Tally
from headrace.store.contract import RunStart, Settlement, Store
from headrace.store.topics import LoggedEvent, Position
from headrace.store.values import IdempotencyKey

_PAGE = 200
_WAIT = 5.0


class Tail:
    """A consumer of logs that has no record in the store: nothing to settle, to renew or to take
    over. While the store is away, it keeps its place."""

    def __init__(self, store: Store, name: str, logs: Sequence[str]) -> None:
        self.name = name
        self._store = store
        self._logs = logs
        self._cursors: dict[str, str] = {}
        self._reads: dict[str, asyncio.Task[list[LoggedEvent]]] = {}
        self._found: list[LeasedDelivery] = []
        self._interrupted = asyncio.Event()

    async def go_on_from(self, cursors: dict[str, str]) -> None:
        """Begin where `cursors` say, at the start of logs that are not in it, and keep them up to
        date: for one that is run by hand, again and again."""
        self._cursors = cursors
        for log in self._logs:
            if log not in cursors:
                cursors[log] = await self._store.position(log, Position("start"))

    async def take_place(self) -> None:
        """Begin at the end of each log in which it has no place yet."""
        for log in self._logs:
            if log not in self._cursors:
                self._cursors[log] = await self._store.position(log, Position("new"))

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        if capacity is not None:
            # Events are of runner `loop` for the store; their reader asks by what it has room for.
            limit = min(limit, capacity.loop)
        if limit <= 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._interrupted.wait(), wait)
            return []
        if not self._found and not self._interrupted.is_set():
            await (self._read(wait) if wait > 0 else self._read_now())
        taken, self._found = self._found[:limit], self._found[limit:]
        return taken

    async def interrupt(self) -> None:
        self._interrupted.set()

    async def wake(self) -> None:
        """Nothing to end: what comes is kept until it is asked for."""

    async def close(self) -> None:
        reads = list(self._reads.values())
        self._reads.clear()
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)

    async def _read(self, wait: float) -> None:
        """Read events after the cursors, for at most `wait` seconds. The next call goes on with
        unfinished reads."""
        for log in self._logs:
            if log not in self._reads:
                reading = self._store.read(log, self._cursors[log], _PAGE, _WAIT)
                self._reads[log] = asyncio.create_task(reading, name=f"headrace-tail-{log}")
        interrupted = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait(
                (interrupted, *self._reads.values()),
                timeout=wait,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            interrupted.cancel()
        for log in [log for log, read in self._reads.items() if read.done()]:
            self._take(log, self._reads.pop(log).result())

    async def _read_now(self) -> None:
        for log in self._logs:
            self._take(log, await self._store.read(log, self._cursors[log], _PAGE, 0.0))

    def _take(self, log: str, events: Sequence[LoggedEvent]) -> None:
        for event in events:
            self._found.append(LeasedDelivery(log, event.cursor, event.envelope))
            self._cursors[log] = event.cursor

    # Nothing is leased, so there is nothing to count, to recover, to write or to renew.

    async def begin(
        self,
        queue: str,
        deliveries: Sequence[LeasedDelivery],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> dict[LeasedDelivery, str]:
        return {}

    async def recover(self, held: Collection[LeasedDelivery]) -> list[LeasedDelivery]:
        return []

    async def settle(
        self,
        queue: str,
        settlements: Sequence[Settlement],
        *,
        repeat: bool = False,
        tally: Tally | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> list[LeasedDelivery]:
        return []

    def ready_ms(self, delivery: LeasedDelivery) -> int:
        return 0

    async def record_starts(
        self,
        queue: str,
        starts: Sequence[RunStart],
        *,
        idempotency: IdempotencyKey | None = None,
    ) -> None:
        pass

    async def renew(self, deliveries: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
        return []
