"""`consumers=(1, 3)`: real loops of a real worker come and go with the backlog."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import pytest

from headrace import Headrace
from headrace.worker.worker import Worker


@dataclass
class Order:
    number: int


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"POLL": "0.05", "HYSTERESIS": "0", "COOLDOWN": "0"}.items():
        monkeypatch.setenv(f"HEADRACE_SCALE_{name}", value)


class Billing:
    """A topic of which one group has from one to three consumers, of one event each."""

    def __init__(self, app: Headrace) -> None:
        self.running = 0
        self.most = 0
        self.handled: Counter[int] = Counter()
        self.go = asyncio.Event()
        self.orders = app.topic("orders", Order)

        @self.orders.subscribe("billing", consumers=(1, 3), max_in_flight=1)
        async def bill(order: Order) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.go.wait()
                self.handled[order.number] += 1
            finally:
                self.running -= 1

    async def publish(self, count: int) -> None:
        await self.orders.publish_many([Order(number) for number in range(count)])


async def until(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(60):
        while text not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_running(billing: Billing, count: int) -> None:
    async with asyncio.timeout(60):
        while billing.running != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_consumers_come_with_the_backlog_and_go_when_idle(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="headrace.worker")
    billing = Billing(app)
    worker: Worker = app.worker()
    async with worker:
        await billing.publish(20)
        await until(caplog, "consumers of orders/billing: 1 -> 3 (backlog: ")
        await until_running(billing, 3)
        billing.go.set()
        await until(caplog, "(idle: 0 events of orders/billing wait; ")
    assert billing.handled == dict.fromkeys(range(20), 1)
    assert billing.most == 3
    assert worker.outcome is not None
    assert worker.outcome.exit_code == 0


async def test_a_worker_that_stops_hands_back_what_all_its_consumers_hold(app: Headrace) -> None:
    billing = Billing(app)
    worker: Worker = app.worker(drain=0.05)
    async with worker:
        await billing.publish(20)
        await until_running(billing, 3)
    # All three were cut short: what they held is there for others.
    assert worker.outcome is not None
    assert worker.outcome.timed_out
    assert not billing.handled
    billing.go.set()
    async with app.worker():
        async with asyncio.timeout(60):
            while len(billing.handled) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert billing.handled == dict.fromkeys(range(20), 1)


async def test_what_is_cut_short_in_a_consumer_that_is_removed_is_counted(app: Headrace) -> None:
    billing = Billing(app)
    worker: Worker = app.worker()
    async with worker:
        assert worker.runtime is not None
        await billing.publish(20)
        await until_running(billing, 3)
        loop = next(loop for loop in worker.runtime.loops if loop.in_flight)
        await worker.runtime.loops.remove(loop, drain=0.0)
        assert loop not in worker.runtime.loops
        billing.go.set()
        async with asyncio.timeout(60):
            while len(billing.handled) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert billing.handled == dict.fromkeys(range(20), 1)
    assert worker.outcome is not None
    assert worker.outcome.timed_out


async def test_a_wrong_setting_is_refused_by_the_name_of_its_variable(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Billing(app)
    monkeypatch.setenv("HEADRACE_SCALE_UP", "lots")
    with pytest.raises(ValueError, match="HEADRACE_SCALE_UP='lots'"):
        await app.worker().run()


async def test_admin_shows_how_many_consumers_there_are_and_why(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    app.lease = 1.0
    caplog.set_level("INFO", logger="headrace.worker")
    billing = Billing(app)
    async with app.worker():
        await billing.publish(20)
        async with asyncio.timeout(60):
            while True:
                (worker,) = await app.admin.workers()
                shown = worker.consumers.get("orders/billing")
                if shown is not None and shown.count == 3:
                    break
                await asyncio.sleep(0.05)
        billing.go.set()
    assert (shown.least, shown.most, shown.slots) == (1, 3, 3)
    assert (shown.ups, shown.downs) == ({"backlog": 1}, {})


async def test_a_consumer_whose_reader_crashes_over_and_over_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = Headrace("memory://")
    billing = Billing(app)
    billing.go.set()
    worker: Worker = app.worker()
    async with worker:
        assert worker.runtime is not None
        (loop,) = worker.runtime.loops

        async def crash(limit: int, wait: float) -> list[object]:
            raise RuntimeError("a bug")

        monkeypatch.setattr(loop.consumer, "fetch", crash)
        # A read that waited still brings the first event.
        await billing.publish(1)
        await until(caplog, "a consumer of orders/billing is broken after 5 crashes")
        await billing.publish(3)
        async with asyncio.timeout(60):
            while billing.handled.total() < 4 or loop in worker.runtime.loops:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    # The crashes of the one that is gone are part of the tally.
    assert worker.outcome is not None
    assert worker.outcome.crashes == 5
