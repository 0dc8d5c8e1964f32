"""While there is plenty, the store looks for the next deliveries as these are handed over."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.job.capacity import Capacity, Runner
from headrace.core.job.delivery import LeasedDelivery
from headrace.store.sqlite.consumer import SqliteConsumer
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Counts
from headrace.worker.consume.places import Places
from headrace.worker.consume.reader import QueueReader
from headrace.worker.consume.settler import Settler
from headrace.worker.run.runners import Runners
from headrace.worker.run.slots import Slots
from tests.worker.test_services import LEASE, QUEUE, send

SENT, SLOTS, HALF = 300, 200, 100


class NotedReads:
    """A consumer whose reads are noted, in turn with what is handed over."""

    def __init__(self, consumer: SqliteConsumer) -> None:
        self._consumer = consumer
        self.noted: list[str] = []

    async def fetch(
        self, limit: int, wait: float, capacity: Capacity | None = None
    ) -> list[LeasedDelivery]:
        self.noted.append(f"asked for {limit}")
        return await self._consumer.fetch(limit, wait, capacity)

    def start(self, delivery: LeasedDelivery) -> None:
        self.noted.append("started")


class Loop:
    """The parts of a consumer loop whose functions all have one runner."""

    def __init__(self, store: SqliteStore, runner: Runner | None) -> None:
        consumer = store.consumer("worker", [QUEUE], LEASE)
        self.held: set[LeasedDelivery] = set()
        self.reads = NotedReads(consumer)
        self.slots = Slots(SLOTS)
        self.settler = Settler(consumer, self.held)
        self.reader = QueueReader(
            self.reads,  # type: ignore[arg-type]
            None,
            self.settler,
            Places(self.slots, Runners(threads=1, processes=1), runner),
            self.held,
            self.reads.start,
            lease=LEASE,
        )


async def test_the_next_are_asked_for_before_these_are_handed_over(store: SqliteStore) -> None:
    await send(store, SENT)
    loop = Loop(store, "loop")
    await loop.reader.step()
    asked = f"asked for {HALF}"
    assert loop.reads.noted == [asked, asked, *["started"] * 2 * HALF]
    assert len(loop.held) == SLOTS
    assert loop.slots.free == 0


@pytest.mark.parametrize("runner", [None, "thread", "process"])
async def test_but_not_if_these_may_take_the_threads(
    store: SqliteStore, runner: Runner | None
) -> None:
    await send(store, SENT)
    loop = Loop(store, runner)
    await loop.reader.step()
    assert [each for each in loop.reads.noted if each != "started"] == loop.reads.noted[:1]


async def test_what_was_asked_for_before_a_stop_is_handed_back(store: SqliteStore) -> None:
    await send(store, SENT)
    loop = Loop(store, "loop")
    first = loop.reads.start

    def stop_and_start(delivery: LeasedDelivery) -> None:
        loop.reader.stop()
        first(delivery)

    loop.reader._start = stop_and_start
    await loop.reader.step()
    await loop.settler.step()
    assert loop.reads.noted.count("started") == HALF
    assert await store.count(QUEUE) == Counts(waiting=SENT - HALF, running=HALF)


async def test_a_step_that_fails_leaves_no_read_behind(store: SqliteStore) -> None:
    await send(store, SENT)
    loop = Loop(store, "loop")

    def fail(delivery: LeasedDelivery) -> None:
        raise ArithmeticError

    loop.reader._start = fail
    with pytest.raises(ArithmeticError):
        await loop.reader.step()
    (ahead,) = (task for task in asyncio.all_tasks() if task.get_name() == "headrace-reader-ahead")
    with pytest.raises(asyncio.CancelledError):
        await ahead
