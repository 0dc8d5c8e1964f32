"""What killed workers run when topics are at stake: three groups of one topic. Each run writes
lines that outlive whatever is killed next."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence

import msgspec

from headrace import Context, Headrace, Retry
from headrace.client.topic.topic import Topic
from tests.faults import killing

GROUPS = ("billing", "warehouse", "ledger")
RETENTION = 1.0
MAX_PAYLOAD = 1000
DEADLY = "deadly"
_SOON = Retry(5, backoff=[0.02], jitter=False)


class Order(msgspec.Struct):
    customer: str
    number: int


def write(group: str, what: str, orders: Sequence[Order]) -> None:
    """A line for each, whoever else writes at the same moment. `CLOCK_MONOTONIC` is the same for
    all processes."""
    end = f"{time.monotonic_ns()} {os.getpid()} ."
    lines = [f"\n{group} {what} {each.customer} {each.number} {end}\n" for each in orders]
    file = os.open(os.environ["POST_FACTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, "".join(lines).encode())
    os.close(file)


def declare(app: Headrace) -> Topic[Order]:
    """The topic with its groups, in the app of a worker or of who publishes."""
    orders = app.topic(
        "orders",
        Order,
        key=lambda order: order.customer,
        retention=RETENTION,
        max_payload=MAX_PAYLOAD,
    )

    @orders.subscribe("billing", retry=_SOON)
    async def bill(order: Order, context: Context) -> None:
        if order.customer == DEADLY:
            write("billing", "begin", [order])
            os.kill(os.getpid(), signal.SIGKILL)
        if order.number % 11 == 5 and context.attempt == 1:
            raise ConnectionError("once")
        await asyncio.sleep(0.005)
        write("billing", "end", [order])

    @orders.subscribe("warehouse", batch=50, max_wait=0.05, retry=_SOON)
    async def load(batch: list[Order]) -> None:
        write("warehouse", "end", batch)

    @orders.subscribe("ledger", ordered=True, retry=_SOON)
    async def post(order: Order, context: Context) -> None:
        write("ledger", "begin", [order])
        await asyncio.sleep(0.005)
        if order.number % 7 == 3 and context.attempt == 1:
            write("ledger", "fail", [order])
            raise ConnectionError("once")
        write("ledger", "end", [order])

    return orders


app = Headrace()
killing.prepare(app.url)
orders = declare(app)
