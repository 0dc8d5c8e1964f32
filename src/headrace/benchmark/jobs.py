"""Headrace itself: sending, draining, waking up."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from headrace import Headrace, Task
from headrace.metrics.totals import Totals
from headrace.worker.processes import gc_tuning

NumberTask = Task[[int], Coroutine[Any, Any, None]]


class Jobs:
    """Measurements on one app; jobs per second or seconds."""

    def __init__(self, app: Headrace) -> None:
        self.app = app
        self._left = 0
        self._all_ran = asyncio.Event()
        self._started: list[float] = []
        self.forgotten = app.task(name="forgotten", queue="forgotten", result_ttl=0)(self._note)
        self.kept = app.task(name="kept", queue="kept")(self._note)

    async def _note(self, number: int) -> None:
        self._started.append(time.perf_counter())
        self._left -= 1
        if not self._left:
            self._all_ran.set()

    async def send_many(self, task: NumberTask, count: int, batch: int = 500) -> float:
        began = time.perf_counter()
        for _ in range(count // batch):
            await self.app.enqueue_many(task.call(number) for number in range(batch))
        return count / (time.perf_counter() - began)

    async def send_one_by_one(self, count: int) -> float:
        began = time.perf_counter()
        for number in range(count):
            await self.forgotten.enqueue(number)
        return count / (time.perf_counter() - began)

    async def send_gathered(self, count: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(self.forgotten.enqueue(number) for number in range(count)))
        return count / (time.perf_counter() - began)

    async def drain(
        self, task: NumberTask, concurrency: int, totals: Totals | None = None
    ) -> float:
        """Run what is queued, from the start of the worker until all is settled; with `totals`, as
        a worker does whose metrics are served."""
        queue = task.declared.queue
        count = self._left = (await self.app.store.count(queue)).waiting
        self._all_ran.clear()
        self._started.clear()
        began = time.perf_counter()
        worker = self.app.worker(queues=[queue], concurrency=concurrency)
        worker.totals = totals
        async with worker:
            await self._all_ran.wait()
            # No signal says that the last outcome is written.
            while not await self._all_settled(queue):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            took = time.perf_counter() - began
        return count / took

    async def _all_settled(self, queue: str) -> bool:
        counts = await self.app.store.count(queue)
        return counts.running + counts.waiting == 0

    async def wake_latencies(self, count: int) -> list[float]:
        """From `enqueue` to the start of the handler, on a worker that waits."""
        took: list[float] = []
        async with self.app.worker(queues=["forgotten"]):
            for number in range(count):
                self._left = 1
                self._all_ran.clear()
                self._started.clear()
                await asyncio.sleep(0.004)
                began = time.perf_counter()
                await asyncio.gather(self.forgotten.enqueue(number), self._all_ran.wait())
                took.append(self._started[0] - began)
        return took


@asynccontextmanager
async def fresh_app(url: str, *, events: bool) -> AsyncIterator[Headrace]:
    """An app on a namespace of its own, in a process set up as a worker's is."""
    gc_tuning.tune_gc()
    async with Headrace(url, namespace=f"bench-{uuid.uuid4().hex[:8]}", events=events) as app:
        yield app


@asynccontextmanager
async def jobs_on(url: str, *, events: bool = False) -> AsyncIterator[Jobs]:
    """Measurements of the engine alone, without the record of events unless asked for."""
    async with fresh_app(url, events=events) as app:
        yield Jobs(app)
