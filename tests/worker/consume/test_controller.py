"""What people want of a queue reaches the worker when it changes, and by looking now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.core.clock import SystemClock
from headrace.errors import StoreUnavailable
from headrace.store.sqlite.store import SqliteStore
from headrace.store.values import Control
from headrace.worker.consume.controller import Controller


class Fragile(SqliteStore):
    """A real store that cannot reach some queues."""

    away: frozenset[str] = frozenset()

    async def control(self, queue: str) -> Control:
        if queue in self.away:
            raise StoreUnavailable("the store is away")
        return await super().control(queue)


@pytest.fixture
async def store() -> AsyncIterator[Fragile]:
    store = Fragile("memory://", namespace="test", crash_limit=3, clock=SystemClock())
    await store.open()
    yield store
    await store.close()


class Time:
    now = 100.0


async def test_a_change_is_applied_when_the_signal_comes(store: Fragile) -> None:
    heeded: asyncio.Queue[Control] = asyncio.Queue()
    consumer = store.consumer("worker", ["mail"], 30.0)
    controller = Controller(
        store, consumer, ["mail"], lambda _, control: heeded.put_nowait(control)
    )
    await controller.listen()
    running = asyncio.create_task(controller.run())
    assert await heeded.get() == Control()
    await store.pause("mail", "send")
    async with asyncio.timeout(30):
        while (await heeded.get()).paused_tasks != {"send"}:
            pass
    controller.stop()
    await running
    await controller.close()
    await consumer.close()


async def test_without_a_signal_a_look_now_and_then_finds_the_change(store: Fragile) -> None:
    time, heeded = Time(), dict[str, Control]()
    consumer = store.consumer("worker", ["mail"], 30.0)
    controller = Controller(
        store, consumer, ["mail"], heeded.__setitem__, monotonic=lambda: time.now
    )
    await controller.step()
    await store.pause("mail")
    rest = await controller.step()
    assert (heeded["mail"].paused, rest) == (False, 5.0)
    time.now += rest
    await controller.step()
    assert heeded["mail"].paused
    await consumer.close()


async def test_many_changes_at_once_cost_few_looks(store: Fragile) -> None:
    time, looks, called = Time(), list[Control](), asyncio.Event()
    consumer = store.consumer("worker", ["mail"], 30.0)
    controller = Controller(
        store, consumer, ["mail"], lambda _, control: looks.append(control), lambda: time.now
    )
    await controller.listen()
    # One change notifies all: when this listener is called, the controller was called too.
    last = await consumer.on_control("mail", lambda _: called.set())
    await controller.step()
    for name in "abc":
        await store.pause("mail", name)
    await asyncio.wait_for(called.wait(), 30)
    rest = await controller.step()
    assert rest == pytest.approx(0.05)
    assert len(looks) == 1
    time.now += rest
    await controller.step()
    assert [control.paused_tasks for control in looks] == [frozenset(), frozenset("abc")]
    await last.close()
    await controller.close()
    await consumer.close()


async def test_a_queue_that_cannot_be_asked_does_not_hold_back_the_others(
    store: Fragile, caplog: pytest.LogCaptureFixture
) -> None:
    time, heeded = Time(), dict[str, Control]()
    store.away = frozenset({"a", "b"})
    queues = ["a", "b", "c"]
    consumer = store.consumer("worker", queues, 30.0)
    controller = Controller(store, consumer, queues, heeded.__setitem__, lambda: time.now)
    assert await controller.step() == pytest.approx(0.1)
    assert list(heeded) == ["c"]
    assert caplog.text.count("the worker waits for it: the store is away") == 1
    store.away = frozenset()
    time.now += 0.1
    await controller.step()
    assert sorted(heeded) == queues
    assert "the store answers again" in caplog.text
    await consumer.close()


async def test_a_mistake_at_one_queue_is_counted_and_the_others_are_looked_at(
    store: Fragile,
) -> None:
    heeded: list[str] = []

    def apply_control(queue: str, control: Control) -> None:
        if queue == "a":
            raise ZeroDivisionError
        heeded.append(queue)

    consumer = store.consumer("worker", ["a", "b"], 30.0)
    controller = Controller(store, consumer, ["a", "b"], apply_control)
    await controller.step()
    assert (heeded, controller.crashes) == (["b"], 1)
    await consumer.close()
