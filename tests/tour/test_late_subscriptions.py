"""A worker serves what is declared while it runs, on every store."""

from __future__ import annotations

import asyncio

from headrace import DeadEvent, Headrace, Reject, Topic
from tests.tour.heard import Heard, Paid


async def test_a_subscription_that_is_added_to_a_running_worker_is_served(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event.order)

    async with app.worker() as worker:
        await orders.publish(Paid("o-1"))

        @orders.subscribe("audit", begin="start", ordered=True, consumers=2)
        async def audit(event: Paid) -> None:
            heard.add("audit", event.order)
            raise Reject("seen")

        @orders.on_dead("audit")
        async def died(event: Paid, dead: DeadEvent) -> None:
            heard.add("dead", event.order)

        late = app.topic("late", Paid, key=lambda event: event.order, shards=2)

        @late.subscribe("mail", batch=2, max_wait=0.01)
        async def mail(events: list[Paid]) -> None:
            for event in events:
                heard.add("mail", event.order)

        @late.broadcast
        async def everyone(event: Paid) -> None:
            heard.add("everyone", event.order)

        await orders.publish(Paid("o-2"))
        await late.publish_many([Paid("A"), Paid("B")])
        await heard.until(billing=2, audit=2, dead=2, mail=2)
        # What a broadcast misses before it is there, it misses.
        while "C" not in heard["everyone"]:
            await late.publish(Paid("C"))
            await asyncio.sleep(0.01)
        (record,) = await app.admin.workers()
        while "mail@late#1" not in record.queues:
            await asyncio.sleep(0.01)
            (record,) = await app.admin.workers()
        while record.consumers["orders/audit"].count < 2:
            await asyncio.sleep(0.01)
            (record,) = await app.admin.workers()
    assert worker.outcome is not None
    assert worker.outcome.exit_code == 0
    assert sorted(heard["audit"]) == sorted(heard["billing"]) == ["o-1", "o-2"]


async def test_a_worker_of_chosen_queues_serves_no_others(
    app: Headrace, orders: Topic[Paid], heard: Heard
) -> None:
    @orders.subscribe("billing")
    async def bill(event: Paid) -> None:
        heard.add("billing", event.order)

    async with app.worker(queues=["billing@orders"]):

        @orders.subscribe("audit")
        async def audit(event: Paid) -> None:
            heard.add("audit", event.order)

        await orders.publish(Paid("o-1"))
        await heard.until(billing=1)
        (group, _) = (await app.admin.topic("orders")).groups
    assert (group.name, group.lag, heard["audit"]) == ("audit", 1, [])
