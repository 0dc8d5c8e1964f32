"""Codecs, versions, and events that are too new for a subscriber."""

import asyncio
import os
import tempfile
from dataclasses import dataclass

from headrace import DeadEvent, Headrace

folder = tempfile.TemporaryDirectory()
url = os.environ.get("HEADRACE_URL") or f"sqlite:///{folder.name}/shop.db"
# Two versions of one program, on the same store.
# Usually an event that is too new waits for an hour for a subscriber that can read it.
yesterday = Headrace(url, namespace="example-schemas", unknown_task_after=0)
today = Headrace(url, namespace="example-schemas")


@dataclass
class OldPayment:
    euros: float


@dataclass
class Payment:
    cents: int
    currency: str


def in_cents(old: dict[str, float]) -> dict[str, int]:
    return {"cents": round(old["euros"] * 100)}


def with_currency(old: dict[str, int]) -> dict[str, object]:
    return {**old, "currency": "EUR"}


old_payments = yesterday.topic("payments", OldPayment)
payments = today.topic(
    "payments", Payment, codec="json", version=3, upcast={1: in_cents, 2: with_currency}
)
handled: asyncio.Queue[str] = asyncio.Queue()


@old_payments.subscribe("report")
async def report(payment: OldPayment) -> None:
    handled.put_nowait(f"yesterday's program: {payment}")


@old_payments.on_dead("report")
async def too_new(dead: DeadEvent) -> None:
    handled.put_nowait(f"{dead.reason}: {dead.error}")


@payments.subscribe("ledger")
async def enter(payment: Payment) -> None:
    handled.put_nowait(f"today's program: {payment}")


async def main() -> None:
    async with yesterday, today:
        async with today.worker():
            await old_payments.publish(OldPayment(9.95))
            print(await handled.get())
            await payments.publish(Payment(500, "CHF"))
            print(await handled.get())
        for event in await payments.read():
            print(f"version {event.version}, {event.raw[:9]!r}…, as {event.data}")
        async with yesterday.worker():
            print(await handled.get())
            print(await handled.get())


if __name__ == "__main__":
    asyncio.run(main())
    folder.cleanup()

# Prints:
# today's program: Payment(cents=995, currency='EUR')
# today's program: Payment(cents=500, currency='CHF')
# version 1, b'\x81\xa5euros\xcb@'…, as Payment(cents=995, currency='EUR')
# version 3, b'{"cents":'…, as Payment(cents=500, currency='CHF')
# yesterday's program: OldPayment(euros=9.95)
# wrong_version: the event is of version 3, this subscriber expects 1: upgrade the subscriber
