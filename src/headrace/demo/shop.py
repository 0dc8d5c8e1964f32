"""The app of the demo. Its worker processes import it; `$HEADRACE_URL` is its store."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

from headrace import Context, Headrace, Retry

app = Headrace()

SOON = Retry(2, backoff="fixed", base=0.4, jitter=False)


@dataclass(frozen=True)
class Thumbnail:
    """Which photo it is of, and when and where it was made."""

    photo: int
    pid: int
    began: float
    ended: float


@dataclass(frozen=True)
class Payment:
    """The attempt that succeeded, and the errors of those before it."""

    attempt: int
    errors: list[str]


@dataclass(frozen=True)
class Trip:
    """A parcel's trip: which process finished it, and in which delivery of the job."""

    parcel: int
    pid: int
    delivery: int


@dataclass(frozen=True)
class OrderPaid:
    """An order was paid. Each group that handles it adds a line to the file `book`."""

    order: int
    book: str


@dataclass(frozen=True)
class Order:
    number: int
    prices: list[Decimal]
    day: date


@dataclass(frozen=True)
class Invoice:
    order: int
    total: Decimal
    day: date


@app.task
async def report_in(ctx: Context) -> str:
    """The name of the worker that runs this."""
    return ctx.worker


@app.task
async def make_thumbnail(photo: int, seconds: float) -> Thumbnail:
    began = time.time()
    await asyncio.sleep(seconds)
    return Thumbnail(photo, os.getpid(), began, time.time())


@app.task(retry=SOON)
async def charge_card(ctx: Context) -> Payment:
    """Fails at first, as a bank may."""
    if ctx.attempt == 1:
        raise ConnectionError("the bank did not answer")
    info = await ctx.job.info()
    return Payment(ctx.attempt, [attempt.error for attempt in info.attempts])


@app.task(retry=SOON)
def add_tax(cents: int, rates: str) -> int:
    """Fails as long as there is no file `rates`, which holds the tax in percent."""
    file = Path(rates)
    if not file.exists():
        raise LookupError("no tax rate is known for this country")
    return cents + cents * int(file.read_text()) // 100


@app.task
async def deliver_parcel(ctx: Context, parcel: int, seconds: float, go: str) -> Trip:
    """Is under way until there is a file `go`, and `seconds` more: whatever the speed of the
    machine, a worker that is killed before then is killed while it runs the job."""
    while not Path(go).exists():  # noqa: ASYNC110, ASYNC240 (another process makes it)
        await asyncio.sleep(0.02)
    await asyncio.sleep(seconds)
    return Trip(parcel, os.getpid(), ctx.fence)


@app.task
async def ring_bell() -> float:
    """The moment at which it ran."""
    return time.time()


@app.task
async def write_invoice(order: Order) -> Invoice:
    return Invoice(order.number, sum(order.prices, Decimal()), order.day)


paid = app.topic("paid", OrderPaid)


@paid.subscribe("shipping")
async def ship(event: OrderPaid) -> None:
    _write_down(event, "shipping")


@paid.subscribe("billing", retry=SOON)
async def bill(event: OrderPaid, ctx: Context) -> None:
    """Fails at first for every fifth order, as a printer may."""
    if event.order % 5 == 0 and ctx.attempt == 1:
        raise ConnectionError("the printer did not answer")
    _write_down(event, "billing" if ctx.attempt == 1 else "billing-again")


def _write_down(event: OrderPaid, what: str) -> None:
    # One write at the end of the file, which processes may share.
    with Path(event.book).open("a") as book:
        book.write(f"{what} {event.order}\n")
