"""What a worker takes over: of jobs on their last chance one at a time, for whichever loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.job.capacity import Capacity
from headrace.core.job.delivery import LeasedDelivery
from headrace.worker.consume.reclaimer import LastChance
from tests.worker.states import until
from tests.worker.topics import Order, orders_of

LEASE = 0.3
GROUPS = ("audit", "billing", "mail")


class Slow:
    """Has all consumers of a store take a while to take over jobs, so that loops are at it at the
    same time if they may; notes how many asked for a last chance, and what all were given. Those
    who ask about queues in `stuck` have no answer until they may `go_on`."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside = self.most = 0
        self.taken: list[int] = []
        self.stuck: set[str] = set()
        self.asked: set[str] = set()
        self.go_on = asyncio.Event()
        self._patch = monkeypatch
        self._make = app.store.consumer
        monkeypatch.setattr(app.store, "consumer", self._consumer)

    def _consumer(self, *given: Any, **named: Any) -> Any:
        made = self._make(*given, **named)
        reclaim = made.reclaim

        async def slow(
            queue: str, limit: int, *, last_chance: bool, capacity: Capacity | None = None
        ) -> Sequence[LeasedDelivery]:
            self.asked.add(queue)
            if queue in self.stuck:
                await self.go_on.wait()
            self.inside += last_chance
            self.most = max(self.most, self.inside)
            try:
                found: Sequence[LeasedDelivery] = await reclaim(
                    queue, limit, last_chance=last_chance, capacity=capacity
                )
                await asyncio.sleep(0.02)
            finally:
                self.inside -= last_chance
            self.taken += [delivery.count for delivery in found]
            return found

        self._patch.setattr(made, "reclaim", slow)
        return made


async def test_two_lines_never_hold_two_jobs_on_their_last_chance(
    store_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Headrace(store_url, namespace=namespace, lease=LEASE, crash_limit=2)
    orders = orders_of(app)
    ran: list[str] = []
    running: set[str] = set()
    together: list[set[str]] = []

    async def handle(name: str) -> None:
        running.add(name)
        together.append(set(running))
        await asyncio.sleep(0.02)
        running.remove(name)
        ran.append(name)

    @app.task
    async def work(name: str) -> None:
        await handle(name)

    def subscribe(group: str) -> None:
        @orders.subscribe(group)
        async def listen(order: Order) -> None:
            await handle(f"{group} {order.id}")

    for group in GROUPS:
        subscribe(group)
    async with app:
        await app.enqueue_many([work.call(f"job {number}") for number in range(2)])
        await orders.publish_many(Order(f"o-{number}") for number in range(2))
        queues = ["default", *(f"{group}@orders" for group in GROUPS)]
        # Takes all of it and is heard of no more: one more such delivery, and they are dead.
        lost = [app.store.consumer("lost", [queue], LEASE) for queue in queues]
        for consumer in lost:
            taken = await consumer.fetch(2, 1.0)
            while len(taken) < 2:
                taken += await consumer.fetch(2 - len(taken), 1.0)
        slow = Slow(app, monkeypatch)
        async with app.worker():
            await until(lambda: len(ran) == 8)
        for consumer in lost:
            await consumer.close()
    assert slow.taken == [2] * 8
    assert [each for each in together if len(each) > 1] == []
    assert slow.most == 1
    assert sorted(ran) == sorted(
        [f"job {number}" for number in range(2)]
        + [f"{group} o-{number}" for group in GROUPS for number in range(2)]
    )


async def test_a_queue_that_does_not_answer_holds_back_no_other_line(
    store_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Headrace(store_url, namespace=namespace, lease=LEASE)
    orders = orders_of(app)
    ran = asyncio.Event()

    @app.task
    async def work() -> None:
        ran.set()

    @orders.subscribe("billing")
    async def bill(order: Order) -> None: ...

    async with app:
        await work.enqueue()
        lost = app.store.consumer("lost", ["default"], LEASE)
        await lost.fetch(1, 1.0)
        slow = Slow(app, monkeypatch)
        slow.stuck.add("billing@orders")
        async with app.worker():
            await until(lambda: "billing@orders" in slow.asked)
            await ran.wait()
            slow.go_on.set()
        await lost.close()


def test_the_last_chance_is_free_again_when_it_came_to_nothing() -> None:
    held: set[LeasedDelivery] = set()
    last_chance = LastChance(held, 3)
    with last_chance.claimed() as first, last_chance.claimed() as second:
        assert (first, second) == (True, False)
    with pytest.raises(OSError, match="gone"), last_chance.claimed():
        raise OSError("gone")
    with last_chance.claimed() as third:
        held.add(LeasedDelivery("default", 1, b"", count=3))
    with last_chance.claimed() as fourth:
        assert (third, fourth) == (True, False)
    held.clear()
    with last_chance.claimed() as fifth:
        assert fifth
