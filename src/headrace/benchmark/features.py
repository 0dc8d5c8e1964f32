"""What the features cost: the same empty task, constrained, delayed, batched, chained or
cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace import Call, Headrace, chain
from headrace.benchmark.jobs import fresh_app

_KEYS = 10_000
_SLOTS = 512


class Features:
    """Measurements on one app, each on a queue of its own; jobs per second or seconds."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._left = 0
        self._all_ran = asyncio.Event()
        self._started: list[float] = []
        task = app.task
        self._plain = task(name="plain", queue="plain", result_ttl=0)(self._note)
        self._keyed = task(name="keyed", queue="keyed", result_ttl=0, concurrency=1)(self._note)
        self._late = task(name="late", queue="late", result_ttl=0)(self._note)
        self._doomed = task(name="doomed", queue="doomed", result_ttl=0)(self._note)
        self._many = task(name="many", queue="many", result_ttl=0, batch=500, max_wait=0.05)(
            self._note_all
        )
        self._step = task(name="step", queue="step", result_ttl=0)(self._pass_on)

    async def _note(self, number: int) -> None:
        self._started.append(time.time())
        self._count(1)

    async def _note_all(self, numbers: list[int]) -> None:
        self._count(len(numbers))

    async def _pass_on(self, number: int) -> int:
        self._count(1)
        return number + 1

    def _count(self, ran: int) -> None:
        self._left -= ran
        if self._left <= 0:
            self._all_ran.set()

    async def plain(self, count: int) -> float:
        return await self._drain("plain", [self._plain.call(n) for n in range(count)])

    async def keyed(self, count: int) -> float:
        tasks = [self._keyed.options(key=f"customer-{n}") for n in range(_KEYS)]
        return await self._drain("keyed", [tasks[n % _KEYS].call(n) for n in range(count)])

    async def one_key(self, count: int) -> float:
        task = self._keyed.options(key="the-only-one")
        return await self._drain("keyed", [task.call(n) for n in range(count)])

    async def batched(self, count: int) -> float:
        return await self._drain("many", [self._many.call(n) for n in range(count)])

    async def chained(self, steps: int) -> float:
        links = [self._step.call(0), *(self._step.call() for _ in range(steps - 1))]
        async with self._expecting("step", steps):
            began = time.perf_counter()
            await self._app.enqueue(chain(*links))
            await self._all_ran.wait()
            return steps / (time.perf_counter() - began)

    async def due_at_once(self, count: int) -> float:
        """Seconds from the moment at which all are due to the start of the last."""
        due = datetime.now(UTC) + timedelta(seconds=2 + count / 10_000)
        task = self._late.options(at=due)
        async with self._expecting("late", count):
            await self._app.enqueue_many(task.call(n) for n in range(count))
            await self._all_ran.wait()
        return max(self._started) - due.timestamp()

    async def lateness(self, count: int) -> list[float]:
        """Seconds by which each of some delayed jobs starts after its time, on a worker that has
        nothing else to do."""
        late: list[float] = []
        async with self._expecting("late", 1):
            for number in range(count):
                self._left = 1
                self._all_ran.clear()
                self._started.clear()
                due = datetime.now(UTC) + timedelta(milliseconds=40 + number % 20)
                await self._late.options(at=due).enqueue(number)
                await self._all_ran.wait()
                late.append(self._started[0] - due.timestamp())
        return late

    async def cancelled(self, count: int) -> float:
        """Seconds to cancel this many waiting jobs by a filter."""
        await self._app.enqueue_many(self._doomed.call(n) for n in range(count))
        began = time.perf_counter()
        report = await self._app.admin.cancel(queue="doomed", task="doomed")
        took = time.perf_counter() - began
        if report.cancelled != count:
            raise RuntimeError(f"{report.cancelled} of {count} jobs were cancelled")
        return took

    async def _drain(self, queue: str, calls: Sequence[Call[Any]]) -> float:
        await self._app.enqueue_many(calls)
        async with self._expecting(queue, len(calls)) as began:
            await self._all_ran.wait()
            # No signal says that the last outcome is written.
            while await self._alive(queue):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            return len(calls) / (time.perf_counter() - began)

    async def _alive(self, queue: str) -> int:
        counts = await self._app.store.count(queue)
        return counts.waiting + counts.running + counts.blocked

    @asynccontextmanager
    async def _expecting(self, queue: str, count: int) -> AsyncIterator[float]:
        """A worker for this many jobs, and the moment it was started."""
        self._left = count
        self._all_ran.clear()
        self._started.clear()
        began = time.perf_counter()
        async with self._app.worker(queues=[queue], concurrency=_SLOTS):
            yield began


@asynccontextmanager
async def features_on(url: str, *, events: bool = True) -> AsyncIterator[Features]:
    async with fresh_app(url, events=events) as app:
        yield Features(app)
