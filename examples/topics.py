"""Each group gets each event once; a failed event is retried in its own group only."""

import asyncio
import os
from dataclasses import dataclass
from typing import Any

from headrace import DeadEvent, Delivery, Headrace, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-topics")


@dataclass
class OrderPaid:
    order_id: str
    cents: int


orders = app.topic("orders", OrderPaid, key=lambda event: event.order_id, source="shop")
billing: asyncio.Queue[str] = asyncio.Queue()
audited: asyncio.Queue[str] = asyncio.Queue()
loaded: asyncio.Queue[list[str]] = asyncio.Queue()
limit = 1000


@orders.subscribe("billing", retry=Retry(2, backoff=[0.01], jitter=False))
async def bill(event: OrderPaid, delivery: Delivery) -> None:
    if event.cents > limit:
        raise ValueError(f"{event.cents} cents are too much")
    if delivery.attempt == 1:
        raise ConnectionError("the bank is away at first")
    billing.put_nowait(f"billed {event.order_id} on attempt {delivery.attempt}")


@orders.on_dead("billing")
async def call_someone(event: OrderPaid, dead: DeadEvent) -> None:
    billing.put_nowait(f"{event.order_id} is dead after {dead.attempts} attempts: {dead.error}")


@orders.subscribe("audit", ack="manual")
async def audit(event: OrderPaid, delivery: Delivery) -> None:
    await delivery.ack()
    audited.put_nowait(f"{delivery.source} {delivery.type} {dict(delivery.headers)}")


@orders.subscribe("warehouse", batch=2, max_wait=0.1)
async def load(events: list[OrderPaid]) -> None:
    loaded.put_nowait([event.order_id for event in events])


async def main() -> None:
    global limit
    async with app, app.worker():
        # With an id of your own, an event that is published twice is stored once.
        for _ in range(2):
            await orders.publish(OrderPaid("o-1", 995), id="payment-1", headers={"tenant": "eu"})
        print(await audited.get())
        print(await billing.get())
        print(await loaded.get())

        several: list[Any] = [OrderPaid("o-2", 5000), "o-3"]
        outcome = await orders.publish_many(several)
        print([result.ok for result in outcome], "-", outcome.failed[0].error)
        print(await billing.get())
        print(await loaded.get())

        for group in (await app.admin.topic("orders")).groups:
            print(group.name, "has", group.dead, "dead")
        limit = 10_000
        print("replayed", await app.admin.replay(queue="billing@orders"))
        print(await billing.get())

        print([event.data.order_id for event in await orders.read()])
        await orders.rewind("warehouse", to="start")
        print(await loaded.get())


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# shop OrderPaid {'tenant': 'eu'}
# billed o-1 on attempt 2
# ['o-1']
# [True, False] - topic 'orders': its events are of type OrderPaid, not str
# o-2 is dead after 2 attempts: 5000 cents are too much
# ['o-2']
# audit has 0 dead
# billing has 1 dead
# warehouse has 0 dead
# replayed 1
# billed o-2 on attempt 2
# ['o-1', 'o-2']
# ['o-1', 'o-2']
