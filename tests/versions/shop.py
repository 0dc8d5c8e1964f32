"""The program whose data is kept for later versions: declared alike by who wrote it and who reads
it now. It has something in every state that outlives a worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace import Headrace, Job, Reject, Retry, group

NAMESPACE = "shop"
# Longer than the data has to be readable.
_FOR_EVER = timedelta(days=36_500)
_FAR = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass
class OrderPaid:
    order: str
    cents: int


class Shop:
    """Jobs have ids by which they are found again."""

    def __init__(self, url: str) -> None:
        self.app = app = Headrace(url, namespace=NAMESPACE, keep_dead=_FOR_EVER)
        app.defaults(result_ttl=_FOR_EVER.total_seconds())
        self.ran: list[str] = []
        self.billed: list[str] = []
        self.entered: list[str] = []
        self.is_repaired = False
        self.add = app.task(name="add")(self._add)
        self.shout = app.task(name="shout")(self._shout)
        self.early = app.task(name="early", queue="early")(self._add)
        self.total = app.task(name="total")(self._total)
        self.refresh = app.task(name="refresh", unique=True)(self._note)
        self.in_turn = app.task(name="in_turn")(self._note)
        self.often = app.task(name="often")(self._note)
        self.pay = app.task(name="pay", queue="early", retry=Retry(2, backoff=[0]))(self._pay)
        self.orders = app.topic(
            "orders", OrderPaid, key=lambda event: event.order, retention=_FOR_EVER
        )
        self.orders.subscribe("billing", begin="start")(self._bill)
        self.orders.subscribe("ledger", ordered=True, begin="start")(self._enter)

    async def _add(self, a: int, b: int) -> int:
        return a + b

    def _shout(self, text: str) -> str:
        return text.upper()

    async def _total(self, numbers: list[int]) -> int:
        return sum(numbers)

    async def _note(self, name: str) -> str:
        self.ran.append(name)
        return name

    async def _pay(self, cents: int) -> int:
        if not self.is_repaired:
            raise ConnectionError("the bank is away")
        if cents < 0:
            raise Reject("nobody pays that")
        return cents

    async def _bill(self, event: OrderPaid) -> None:
        self.billed.append(event.order)

    async def _enter(self, event: OrderPaid) -> None:
        self.entered.append(f"{event.order} {event.cents}")

    async def write(self) -> None:
        """All that a later version should find."""
        async with self.app:
            await self._write_ended()
            await self._write_jobs()
            await self._write_schedules()
            for order, cents in (("o-2", 20), ("o-1", 30)):
                await self.orders.publish(OrderPaid(order, cents), headers={"tenant": "eu"})

    async def _write_ended(self) -> None:
        """What has been to a worker: a job that is done, one that is dead, an event that both
        groups have handled, and one half of a flow."""
        async with self.app.worker():
            done = await self.early.options(id="done").enqueue(2, 3)
            await done.result(timeout=30)
            dead = await self.pay.options(id="dead", headers={"tenant": "eu"}).enqueue(995)
            await _ended(dead)
            await self.orders.publish(OrderPaid("o-1", 10))
            while len(self.billed) + len(self.entered) < 2:
                await done.status()
        async with self.app.worker(queues=["early"]):
            parts = [self.early.options(id="half").call(1, 2), self.add.call(3, 4)]
            await self.app.enqueue(group(parts).then(self.total.options(id="flow").call()))
            await self.app.job("half").result(timeout=30)

    async def _write_jobs(self) -> None:
        await self.add.options(id="waiting", tags=["vip"], headers={"a": "b"}).enqueue(2, 3)
        await self.add.options(id="urgent", priority=7, timeout=20).enqueue(2, 4)
        await self.shout.options(id="thread").enqueue("tea")
        await self.add.options(id="due", delay=0.001).enqueue(2, 5)
        await self.add.options(id="far", at=_FAR).enqueue(2, 6)
        await self.refresh.options(id="unique").enqueue("prices")
        for number in range(3):
            await self.in_turn.options(key="ada", id=f"turn-{number}").enqueue(f"turn {number}")
        await self.add.options(queue="paused", id="paused").enqueue(2, 7)
        await self.app.admin.pause("paused")

    async def _write_schedules(self) -> None:
        await self.app.schedules.upsert("often", self.often.call("tick"), every=0.1)
        await self.app.schedules.pause("often")
        await self.app.schedules.upsert("nightly", self.add.call(1, 1), cron="30 2 * * *")


async def _ended(job: Job[int]) -> None:
    while await job.status() != "dead":
        pass
