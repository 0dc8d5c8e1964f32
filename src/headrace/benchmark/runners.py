"""What it costs to run a function elsewhere than on the loop: in a thread, or in a process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from headrace import Headrace, Task
from headrace.benchmark import tasks
from headrace.benchmark.figures import Figure, Report, Sizes, middle
from headrace.benchmark.jobs import fresh_app

NoArguments = Task[[], Any]
_THREADS = 32
_PROCESSES = 2
_WARMING_UP = 50
_READ_ENDS = 0.3


class RunnerDrains:
    """Drains by a worker that runs already, with default options unless others are given. Each task
    is in a queue of its own, and keeps no results."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self.on_loop = self._declared(tasks.nothing)
        self.in_threads = self._declared(tasks.nothing_plain)
        self.in_processes = self._declared(tasks.nothing_apart, run_in="process")
        self.asleep = self._declared(tasks.sleep_1_ms)

    def _declared(self, task: NoArguments, **options: Any) -> NoArguments:
        declare = self._app.task(name=task.name, queue=task.name, result_ttl=0, **options)
        declared: NoArguments = declare(task.function)
        return declared

    async def drain(self, task: NoArguments, count: int, **options: Any) -> float:
        """Jobs per second, from the moment at which they may be taken until all are settled."""
        queue, store = task.declared.queue, self._app.store
        async with self._app.worker(queues=[queue], **options):
            await self._send(task, _WARMING_UP)
            await self._emptied(queue)
            await self._paused(task)
            await self._send(task, count)
            waiting = (await store.count(queue)).waiting
            began = time.perf_counter()
            await store.resume(queue)
            await self._emptied(queue)
            return waiting / (time.perf_counter() - began)

    async def _paused(self, task: NoArguments) -> None:
        """Pause its queue. A read that waits already may still take what comes next: it gets one
        job, and is over."""
        await self._app.store.pause(task.declared.queue)
        await self._send(task, 1)
        with suppress(TimeoutError):
            async with asyncio.timeout(_READ_ENDS):
                await self._emptied(task.declared.queue)

    async def _send(self, task: NoArguments, count: int) -> None:
        for start in range(0, count, 500):
            await self._app.enqueue_many(task.call() for _ in range(min(500, count - start)))

    async def _emptied(self, queue: str) -> None:
        while True:
            counts = await self._app.store.count(queue)
            if not counts.waiting + counts.running:
                return
            # No signal says that the last outcome is written. Rarely, so that looking costs little.
            await asyncio.sleep(0.005)


def bare_threads(call: Callable[[], Any], count: int, threads: int) -> float:
    """Calls per second of threads that take them from a queue, and do nothing else."""
    calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
    for _ in range(count):
        calls.put(call)
    for _ in range(threads):
        calls.put(None)

    def work() -> None:
        while (next_call := calls.get()) is not None:
            next_call()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return count / (time.perf_counter() - began)


async def measure_runners(url: str, sizes: Sizes, report: Report) -> list[Figure]:
    """Threads and processes against the loop of the same run, all with the record of events."""
    on_loop, in_threads, in_processes, asleep, bare = [], [], [], [], []
    for _ in range(sizes.repeats):
        report("Redis: plain functions, in threads and in processes")
        async with fresh_app(url, events=True) as app:
            drains = RunnerDrains(app)
            on_loop.append(await drains.drain(drains.on_loop, sizes.drain))
            in_threads.append(await drains.drain(drains.in_threads, sizes.plain))
            in_processes.append(
                await drains.drain(drains.in_processes, sizes.apart, processes=_PROCESSES)
            )
            bare.append(bare_threads(tasks.sleep_1_ms.function, sizes.asleep, _THREADS))
            asleep.append(await drains.drain(drains.asleep, sizes.asleep, threads=_THREADS))
    loop = middle(on_loop)
    return [
        Figure("drain of plain functions, to async", middle(in_threads), "/s", loop, 0.6),
        Figure(
            "drain in 2 processes, to async", middle(in_processes), "/s", loop, 0.3, enough=10_000
        ),
        Figure("1 ms in 32 threads, to bare threads", middle(asleep), "/s", middle(bare), 0.7),
    ]
