"""Topics: publishing, and draining a log by one group, by batches, by three groups, in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from headrace import Headrace, Topic
from headrace.benchmark.jobs import fresh_app

_KEYS = 10_000
_SLOTS = 1024


class Paid(msgspec.Struct):
    order: str
    cents: int


class TopicRates:
    """Measurements on one app, each on a topic of its own; events per second or seconds."""

    def __init__(self, app: Headrace) -> None:
        self._app = app
        self._left = 0
        self._all_ran = asyncio.Event()
        self._started = 0.0
        self._one = self._topic("one", ["only"])
        self._three = self._topic("three", ["first", "second", "third"])
        self._batched = app.topic("batched", Paid)
        self._batched.subscribe("only", batch=500, max_wait=0.05, max_in_flight=2 * _SLOTS)(
            self._note_all
        )
        self._ordered = app.topic("ordered", Paid, key=lambda event: event.order)
        self._ordered.subscribe("only", ordered=True, max_in_flight=_SLOTS)(self._note)

    def _topic(self, name: str, groups: Sequence[str]) -> Topic[Paid]:
        topic = self._app.topic(name, Paid)
        for group in groups:
            topic.subscribe(group, max_in_flight=_SLOTS)(self._note)
        return topic

    async def _note(self, event: Paid) -> None:
        self._started = time.perf_counter()
        self._count(1)

    async def _note_all(self, events: list[Paid]) -> None:
        self._count(len(events))

    def _count(self, ran: int) -> None:
        self._left -= ran
        if self._left <= 0:
            self._all_ran.set()

    async def one_group(self, count: int) -> tuple[float, float]:
        """Published and handled per second."""
        return await self._run(self._one, count)

    async def three_groups(self, count: int) -> float:
        """Of all groups together."""
        return (await self._run(self._three, count))[1]

    async def batches(self, count: int) -> float:
        return (await self._run(self._batched, count))[1]

    async def in_order(self, count: int) -> float:
        return (await self._run(self._ordered, count))[1]

    async def wake_latencies(self, count: int) -> list[float]:
        """From `publish` to the start of the handler, on a worker that waits."""
        took: list[float] = []
        async with self._app.worker(queues=["only@one"]):
            for number in range(count):
                self._left = 1
                self._all_ran.clear()
                await asyncio.sleep(0.004)
                began = time.perf_counter()
                publish = self._one.publish(Paid("o-1", number))
                await asyncio.gather(publish, self._all_ran.wait())
                took.append(self._started - began)
        return took

    async def _run(self, topic: Topic[Paid], count: int, batch: int = 500) -> tuple[float, float]:
        began = time.perf_counter()
        for start in range(0, count, batch):
            numbers = range(start, start + batch)
            await topic.publish_many([Paid(f"o-{n % _KEYS}", n) for n in numbers])
        published = count / (time.perf_counter() - began)
        queues = [f"{group}@{topic.name}" for group in topic.subscriptions]
        return published, await self._drain(queues, count * len(queues))

    async def _drain(self, queues: Sequence[str], count: int) -> float:
        """From the start of the worker until all is settled."""
        self._left = count
        self._all_ran.clear()
        began = time.perf_counter()
        async with self._app.worker(queues=queues, concurrency=_SLOTS):
            await self._all_ran.wait()
            # No signal says that the last outcome is written.
            while await self._alive(queues):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            return count / (time.perf_counter() - began)

    async def _alive(self, queues: Sequence[str]) -> int:
        counts = [await self._app.store.count(queue) for queue in queues]
        return sum(each.waiting + each.running + each.blocked for each in counts)


@asynccontextmanager
async def topics_on(url: str) -> AsyncIterator[TopicRates]:
    """Measurements of the engine alone, without the record of events."""
    async with fresh_app(url, events=False) as app:
        yield TopicRates(app)
