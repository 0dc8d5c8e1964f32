"""The store of an app under test: remembers what was sent, and fails when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headrace.core.clock import Clock
from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.core.job.history import decode_history
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.store.contract import Settlement, Store, StoreConsumer
from headrace.store.loop_local import LeavesLoops
from headrace.store.topics import Published
from headrace.testing.drain.hand_worker import HandWorker
from headrace.testing.faults.run_faults import RunFaults
from headrace.testing.faults.store_faults import VERBS, Fault, StoreFaults
from headrace.testing.sent.sent import SentLog
from headrace.worker.consume.consumer_loops import ConsumerLoops
from headrace.worker.worker import Worker

_SOON, _LATER = 50, 0.001


class TestedStore:
    """A store with faults; fulfils `headrace.store.contract.Store`. What is not here is the store's
    own, with `StoreFaults` around it."""

    __test__ = False

    def __init__(
        self,
        inner: Store,
        clock: Clock,
        sent: SentLog,
        workers: Collection[object],
        crash_limit: int,
    ) -> None:
        self.inner = inner
        self.faults = StoreFaults()
        self.run_faults = RunFaults()
        self.workers = workers
        """The workers that run now."""
        self.crash_limit = crash_limit
        self._clock = clock
        self.sent = sent

    def fail(self, verb: str, times: int = 1, *, applied: bool = False) -> None:
        """`fail` of the test kit."""
        self.faults.fail(verb, times, applied=applied)

    def down(self) -> Fault:
        """`down` of the test kit."""
        return self.faults.down()

    def slow(self, seconds: float, verb: str = "") -> Fault:
        """`slow` of the test kit."""
        return self.faults.slow(seconds, verb)

    async def append(
        self, queue: str, parcels: Sequence[Parcel], **options: Any
    ) -> dict[int, JobId]:
        async def append() -> dict[int, JobId]:
            instead = await self.inner.append(queue, parcels, **options)
            self.sent.appended(queue, parcels, instead, self._clock.now_ms())
            return instead

        return await self.faults.call("append", append)

    async def publish(self, log: str, events: Sequence[Parcel], **options: Any) -> Published:
        async def publish() -> Published:
            answer = await self.inner.publish(log, events, **options)
            not_new = {*answer.known, *answer.refused}
            new = [each for at, each in enumerate(events[: answer.taken]) if at not in not_new]
            self.sent.published(log, new, self._clock.now_ms())
            return answer

        return await self.faults.call("publish", publish)

    def consumer(
        self, name: str, queues: Mapping[str, int] | Sequence[str], lease: float, **options: Any
    ) -> TestedConsumer:
        return TestedConsumer(self.inner.consumer(name, queues, lease, **options), self)

    def close_for(self, loops: Iterable[asyncio.AbstractEventLoop]) -> None:
        """Close it for event loops that cannot be awaited any more."""
        if isinstance(self.inner, LeavesLoops):
            self.inner.close_for(loops)

    def __getattr__(self, name: str) -> Any:
        return _with_faults(self, self.inner, name, self.faults)


class TestedConsumer:
    """One worker's side of it; fulfils `headrace.store.contract.StoreConsumer`."""

    __test__ = False

    def __init__(self, inner: StoreConsumer, store: TestedStore) -> None:
        self.name = inner.name
        self._inner = inner
        self._store = store
        self._losing: dict[LeasedDelivery, asyncio.Task[None]] = {}
        self._abandoning: dict[LeasedDelivery, asyncio.Task[None]] = {}

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        call = self._store.faults.call
        while came := await call("fetch", self._inner.fetch, limit, wait, capacity):
            if kept := await self._handed_out(came):
                return kept
        return []

    async def reclaim(self, queue: str, limit: int, **options: Any) -> list[LeasedDelivery]:
        faults = self._store.faults
        return await self._handed_out(
            await faults.call("reclaim", self._inner.reclaim, queue, limit, **options)
        )

    async def settle(
        self, queue: str, settlements: Sequence[Settlement], **options: Any
    ) -> list[LeasedDelivery]:
        for delivery in self._lost_with(settlements):
            await self._abandon(delivery)
            if (losing := self._losing.pop(delivery, None)) is not None:
                losing.cancel()
        faults = self._store.faults
        return await faults.call("settle", self._inner.settle, queue, settlements, **options)

    async def close(self) -> None:
        for losing in self._losing.values():
            losing.cancel()
        await self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return _with_faults(self, self._inner, name, self._store.faults)

    def _lost_with(self, settlements: Sequence[Settlement]) -> list[LeasedDelivery]:
        """Those whose worker dies before this is written, or has lost them; all of a batch, since
        its worker has run them as one."""
        faults, lost = self._store.run_faults, list[LeasedDelivery]()
        batches: set[bytes] = set()
        for item in settlements:
            delivery = item.delivery
            task = id_and_task(delivery.envelope)[1]
            if delivery in self._losing or task in batches or faults.crashes(item):
                lost.append(delivery)
                declared = self._store.sent.app.tasks.get(task.decode())
                if declared is not None and declared.declared.batch is not None:
                    batches.add(task)
        return lost

    async def _handed_out(self, deliveries: list[LeasedDelivery]) -> list[LeasedDelivery]:
        """Those that get to the worker."""
        kept: list[LeasedDelivery] = []
        for delivery in deliveries:
            if self._is_refused(delivery):
                kept.append(delivery)
                continue
            if self._store.run_faults.take("before run", delivery):
                await self._abandon(delivery)
                continue
            kept.append(delivery)
            if self._store.run_faults.take("during run", delivery):
                self._losing[delivery] = asyncio.create_task(self._lose(delivery))
        return kept

    def _is_refused(self, delivery: LeasedDelivery) -> bool:
        """Whether too many workers have died of it: the next one does not begin it."""
        crashes = decode_history(delivery.history).crashes + delivery.count - 1
        return crashes >= self._store.crash_limit

    async def _abandon(self, delivery: LeasedDelivery) -> None:
        """Take a job from its worker as if that were dead, once."""
        if delivery not in self._abandoning:
            self._abandoning[delivery] = asyncio.create_task(self._take_away(delivery))
        await asyncio.shield(self._abandoning[delivery])

    async def _take_away(self, delivery: LeasedDelivery) -> None:
        """Its lease is over, and another has taken it over, who hands it back at once. So the
        delivery counts, and the job waits."""
        queue, inner = delivery.queue, self._store.inner
        await inner.consumer(self.name, [queue], 0.0).renew([delivery])
        heir = inner.consumer(f"{self.name}-heir", [queue], 0.0)
        await heir.reclaim(queue, 1000, last_chance=True)
        await heir.close()

    async def _lose(self, delivery: LeasedDelivery) -> None:
        """When the job runs, give it to another, and tell its worker."""
        tries = 0
        while not self._runs(delivery):
            tries += 1
            await asyncio.sleep(0 if tries < _SOON else _LATER)
        await self._abandon(delivery)
        for loops in self._loops():
            loops.lose([delivery])

    def _runs(self, delivery: LeasedDelivery) -> bool:
        runs = [run for loops in self._loops() for run in loops.runs]
        return any(run.delivery is delivery and run.has_begun for run in runs)

    def _loops(self) -> list[ConsumerLoops]:
        workers = list(self._store.workers)
        by_hand: list[ConsumerLoops] = [
            each.all_loops for each in workers if isinstance(each, HandWorker)
        ]
        running = [each.runtime for each in workers if isinstance(each, Worker)]
        return by_hand + [runtime.loops for runtime in running if runtime is not None]


def _with_faults(owner: Any, inner: object, name: str, faults: StoreFaults) -> Any:
    """An attribute of the store; a verb of it with faults around it."""
    found = getattr(inner, name)
    if name not in VERBS:
        return found

    async def verb(*args: Any, **options: Any) -> Any:
        return await faults.call(name, found, *args, **options)

    setattr(owner, name, verb)
    return verb
