"""A little of everything that an app and its people do with a store."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from headrace import Context, Headrace, Retry, Topic, chain, group

LONG = 60.0


class Everything:
    """An app with tasks of all kinds and a topic."""

    def __init__(self, app: Headrace) -> None:
        self.app = app
        self.billed: list[str] = []
        self.opened = asyncio.Event()

        @app.task(queue="a", rate="1000/s", concurrency=2)
        async def add(ctx: Context, left: int, right: int) -> int:
            ctx.progress(0.5, "half way")
            ctx.log("adding")
            return left + right

        @app.task(queue="b", retry=Retry(1))
        async def fail(text: str) -> None:
            raise ValueError(text)

        @app.task(queue="c", unique=True, batch=5, max_wait=0.05)
        async def gather(numbers: list[int]) -> list[int]:
            return numbers

        @app.task(queue="a", run_in="thread")
        def wait_for_someone() -> None: ...

        self.add, self.fail, self.gather, self.idle = add, fail, gather, wait_for_someone
        self.orders: Topic[str] = app.topic("orders", str, key=lambda order: order[0])

        @self.orders.subscribe("billing", begin="start")
        async def bill(order: str) -> None:
            self.billed.append(order)

        @self.orders.subscribe("ledger", ordered=True, retry=Retry(1), begin="start")
        async def book(order: str) -> None:
            if order == "a-bad":
                raise ValueError(order)


async def use_everything(app: Headrace) -> None:
    """Raises if the store refuses any of it."""
    all_of_it = Everything(app)
    async with app:
        async with app.worker(), asyncio.timeout(LONG):
            await _jobs(all_of_it)
            await _topics(all_of_it)
        await _people(all_of_it)


async def _jobs(them: Everything) -> None:
    app, add = them.app, them.add
    assert await (await add.enqueue(2, 3)).result(LONG) == 5
    later = add.options(key="k", priority=7, delay=0.05, expires=LONG)
    assert await (await later.enqueue(2, 3)).result(LONG) == 5
    both = group([add.call(1, 2), add.call(3, 4)])
    assert await (await app.enqueue(both)).result(LONG) == [3, 7]
    row = chain(add.call(1, 2), add.call(right=4))
    assert await (await app.enqueue(row)).result(LONG) == 7
    across = group([add.call(1, 2)]).then(them.gather.call(3))
    await app.enqueue(across)
    assert await (await them.gather.enqueue(4)).result(LONG) == 4
    await (await them.idle.enqueue()).result(LONG)
    failed = await them.fail.enqueue("no")
    while not await app.admin.dead("b"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await failed.info()


async def _topics(them: Everything) -> None:
    orders, admin = them.orders, them.app.admin
    await orders.publish_many(["a-1", "a-bad", "a-2"])
    while len(them.billed) < 3 or not await admin.stopped_keys("orders", "ledger"):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    assert await admin.free_key("orders", "ledger", "a")
    assert await orders.read(limit=10)
    await orders.rewind("billing", to="start")
    while len(them.billed) < 6:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _people(them: Everything) -> None:
    app, admin = them.app, them.app.admin.by("ann")
    await admin.pause("a")
    await admin.pause("a", task=them.add.name)
    job = await them.add.enqueue(1, 1)
    assert await admin.why(job.id)
    await admin.jobs("a")
    await admin.job(job.id)
    await admin.log(job.id)
    await admin.resume("a", task=them.add.name)
    await admin.resume("a")
    await admin.cancel([job.id])
    await admin.queues()
    await admin.workers()
    await admin.stats(5)
    assert [event async for event in admin.events("a")]
    (dead,) = await admin.dead("b")
    await admin.replay([dead.id])
    await admin.cancel([dead.id])
    await app.schedules.upsert("nightly", them.add.call(1, 2), every=timedelta(hours=1))
    await admin.pause_schedule("nightly")
    await admin.resume_schedule("nightly")
    await admin.run_schedule("nightly")
    await admin.remove_schedule("nightly")
    await admin.topics()
    await admin.remove_group("orders", "billing", force=True)
    await admin.remove_group("orders", "ledger", force=True)
    assert await admin.actions()
