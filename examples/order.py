"""Events of one account are booked in order; a failing one stops only its own account."""

import asyncio
import os
from dataclasses import dataclass

from headrace import DeadEvent, Delivery, Headrace, Retry

app = Headrace(os.environ.get("HEADRACE_URL") or "memory://", namespace="example-order")


@dataclass
class Booking:
    account: str
    number: int


bookings = app.topic("bookings", Booking, key=lambda booking: booking.account, shards=2)
booked: dict[str, list[int]] = {"A": [], "B": [], "C": []}
steps: asyncio.Queue[None] = asyncio.Queue()
deaths: asyncio.Queue[str] = asyncio.Queue()
closed = {"C"}


@bookings.subscribe("ledger", ordered=True, retry=Retry(2, backoff=[0.02], jitter=False))
async def enter(booking: Booking, delivery: Delivery) -> None:
    if booking == Booking("A", 2) and delivery.attempt == 1:
        raise ConnectionError("A 2 fails at first, and A 3 waits for it")
    if booking.account in closed:
        raise ValueError(f"account {booking.account} is closed")
    booked[booking.account].append(booking.number)
    steps.put_nowait(None)


@bookings.on_dead("ledger")
async def call_someone(booking: Booking, dead: DeadEvent) -> None:
    deaths.put_nowait(f"{booking} is dead: {dead.error}")


async def main() -> None:
    async with app, app.worker(), app.worker():
        await bookings.publish_many(Booking(a, n) for n in (1, 2, 3) for a in "ABC")
        for _ in range(6):
            await steps.get()
        print(booked)

        print(await deaths.get())
        (stopped,) = await app.admin.stopped_keys("bookings", "ledger")
        print(stopped.key, "is", stopped.state, "with", stopped.waiting, "behind it")

        closed.clear()
        print("replayed", await app.admin.replay(stopped.event))
        for _ in range(3):
            await steps.get()
        print(booked["C"], await app.admin.stopped_keys("bookings", "ledger"))


if __name__ == "__main__":
    asyncio.run(main())

# Prints:
# {'A': [1, 2, 3], 'B': [1, 2, 3], 'C': []}
# Booking(account='C', number=1) is dead: account C is closed
# C is blocked with 2 behind it
# replayed 1
# [1, 2, 3] []
