"""A shop with something of everything that the dashboard shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from headrace import Context, Delivery, Headrace, Retry, chain, group
from headrace.core.clock import Clock


class CardRefused(Exception):
    """Said by the bank."""


@dataclass
class OrderPaid:
    order: str
    cents: int


class Shop:
    """`export` goes on from page to page as `turns` are given; `charge` fails for less than
    nothing; `fetch` waits for `opened`."""

    def __init__(self, url: str, *, namespace: str = "shop", clock: Clock | None = None) -> None:
        self.app = app = Headrace(url, namespace=namespace, clock=clock, lease=600)
        self.turns: asyncio.Queue[None] = asyncio.Queue()
        self.opened = asyncio.Event()
        self.export = app.task(name="export", queue="reports")(self._export)
        self.charge = app.task(name="charge", queue="payments", retry=Retry(2, backoff=[0.05]))(
            self._charge
        )
        self.greet = app.task(name="greet", queue="mail")(self._greet)
        self.fetch = app.task(name="fetch", queue="images")(self._fetch)
        self.resize = app.task(name="resize", queue="images")(self._resize)
        self.gallery = app.task(name="gallery", queue="images")(self._gallery)
        app.cron("30 2 * * *", timezone="Europe/Berlin", name="nightly-report", args=[3])(
            self.export
        )
        app.cron("0 9 * * MON-FRI", name="greet-team", args=["team"])(self.greet)
        app.every(3600, name="hourly-greeting", args=["everyone"])(self.greet)
        self.orders = app.topic("orders", OrderPaid, key=lambda event: event.order)
        self.orders.subscribe("billing", ordered=True, retry=Retry(1))(self._bill)
        self.orders.subscribe("mail")(self._thank)

    async def _export(self, ctx: Context, pages: int) -> int:
        for page in range(1, pages + 1):
            ctx.log(f"wrote page {page} of {pages}")
            ctx.progress(page / pages, f"page {page} of {pages}")
            await self.turns.get()
        return pages

    async def _charge(self, order: str, cents: int) -> str:
        if cents < 0:
            self._ask_the_bank(order)
        return f"charged {cents} cents for {order}"

    def _ask_the_bank(self, order: str) -> None:
        try:
            raise TimeoutError("the bank did not answer within 30 s")
        except TimeoutError as error:
            raise CardRefused(f"the card for order {order} was refused") from error

    async def _greet(self, who: str) -> str:
        return f"Dear {who}"

    async def _fetch(self, page: int) -> str:
        if page == 3:
            await self.opened.wait()
        return f"page {page}"

    async def _resize(self, picture: str) -> str:
        return picture

    async def _gallery(self, pictures: list[str]) -> int:
        return len(pictures)

    async def _bill(self, event: OrderPaid, delivery: Delivery) -> None:
        if event.cents < 0:
            raise CardRefused(f"order {event.order}: a bill cannot be negative")

    async def _thank(self, event: OrderPaid) -> None:
        if event.order == "o-4":
            raise ConnectionError("the mail server hung up")


async def bury(shop: Shop, count: int) -> list[str]:
    """Charges that have died, by the text `o-0`, `o-1` and so on among their arguments."""
    jobs = [await shop.charge.enqueue(f"o-{number}", -5) for number in range(count)]
    await until(lambda: has_dead(shop.app, "payments", count))
    return [job.id for job in jobs]


async def fill(shop: Shop) -> dict[str, str]:
    """Jobs in every state, while a worker runs; the ids of some by what they show."""
    app = shop.app
    running = await shop.export.enqueue(8)
    for _ in range(4):
        shop.turns.put_nowait(None)
    dead = await bury(shop, 5)
    pages = [chain(shop.fetch.call(page), shop.resize.call()) for page in (1, 2, 3)]
    flow = await app.enqueue(group(pages).then(shop.gallery.call()))
    await app.admin.pause("newsletter")
    for number in range(12):
        await shop.greet.options(queue="newsletter").enqueue(f"reader {number}")
    await shop.greet.options(delay=900).enqueue("someone, later")
    await shop.greet.options(delay=86_400).enqueue("someone, tomorrow")
    events = [OrderPaid(f"o-{at % 6}", -1 if at == 3 else 100 * at) for at in range(24)]
    await shop.orders.publish_many(events)
    await until(lambda: has_dead(app, "billing@orders", 1))
    await until(lambda: is_at(app, running.id, 0.6))
    return {"running": running.id, "dead": dead[-1], "flow": flow.id}


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 20) -> None:
    """Until something holds in the store."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def has_dead(app: Headrace, queue: str, count: int) -> bool:
    return (await app.admin.queue(queue)).dead >= count


async def is_at(app: Headrace, id: str, fraction: float) -> bool:
    progress = (await app.admin.job(id)).progress
    return progress is not None and progress.fraction >= fraction
