"""An order and its job in one transaction, or neither; and each is handled once."""

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace import Delivery, Headrace, Retry
from headrace.outbox import Inbox, Outbox

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-outbox")
folder = tempfile.TemporaryDirectory()
database = Path(folder.name) / "shop.db"
outbox, inbox = Outbox(app), Inbox()
booked = asyncio.Event()


@dataclass
class OrderPaid:
    order: str
    cents: int


orders = app.topic("orders", OrderPaid, key=lambda paid: paid.order)


@contextmanager
def transaction() -> Iterator[sqlite3.Connection]:
    """Commits, or rolls back if something is raised."""
    connection = sqlite3.connect(database)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@orders.subscribe("ledger", retry=Retry(3, backoff=[0.01]))
async def book(paid: OrderPaid, delivery: Delivery) -> None:
    with transaction() as connection:
        if inbox.first(connection, delivery):
            connection.execute("INSERT INTO ledger VALUES (?, ?)", (paid.order, paid.cents))
    if delivery.attempt == 1:
        raise ConnectionError("the worker fails after its commit")
    print("booked", paid.order, "on attempt", delivery.attempt)
    booked.set()


def pay(order: str, cents: int, balance: int) -> None:
    with transaction() as connection:
        connection.execute("INSERT INTO orders VALUES (?)", (order,))
        outbox.publish(connection, orders, OrderPaid(order, cents))
        if cents > balance:
            raise ValueError(f"{order}: not enough money")


async def main() -> None:
    with transaction() as connection:
        connection.execute("CREATE TABLE orders (id TEXT)")
        connection.execute("CREATE TABLE ledger (id TEXT, cents INTEGER)")
        outbox.create(connection)
        inbox.create(connection)
    try:
        pay("o-1", 5000, balance=100)
    except ValueError as error:
        print(error)
    pay("o-2", 995, balance=1000)
    async with app, app.worker(), outbox.relay(f"sqlite:///{database}"):
        await booked.wait()
    with transaction() as connection:
        print("orders", connection.execute("SELECT * FROM orders").fetchall())
        print("ledger", connection.execute("SELECT * FROM ledger").fetchall())


if __name__ == "__main__":
    with folder:
        asyncio.run(main())

# Prints:
# o-1: not enough money
# booked o-2 on attempt 2
# orders [('o-2',)]
# ledger [('o-2', 995)]
