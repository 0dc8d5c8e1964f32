"""`orders/billing`, as logs name the handler of a group, is a task to the filters of the admin."""

from __future__ import annotations

import pytest

from headrace import Headrace
from tests.admin.test_topics import BILLING, Order, orders_of, rejecting, until


@pytest.mark.parametrize("shards", [1, 2])
async def test_events_of_a_group_are_chosen_by_the_name_of_its_handler(
    app: Headrace, shards: int
) -> None:
    orders = orders_of(app, shards=shards)
    rejecting(orders)
    rejecting(orders, "mail")
    await orders.publish_many([Order(f"o-{number}") for number in range(4)])
    async with app.worker():
        await until(app, BILLING, dead=4, waiting=0, running=0)
        await until(app, "mail@orders", dead=4, waiting=0, running=0)
    admin, handler = app.admin, "orders/billing"
    assert {job.queue.partition("#")[0] for job in await admin.dead(task=handler)} == {BILLING}
    assert len(await admin.dead(task=handler)) == 4
    assert len((await admin.dead_page(task=handler)).jobs) == 4
    assert len((await admin.jobs(None, "dead", task=handler)).jobs) == 4
    assert len(await admin.dead("mail@orders", task=handler)) == 0
    assert len(await admin.dead(task="orders/nobody")) == 0
    assert await admin.purge(task=handler) == 4
    assert await admin.replay(task="orders/mail") == 4
    assert (await admin.cancel(task="orders/mail")).cancelled == 4


async def test_a_task_with_a_slash_in_its_name_stays_a_task(app: Headrace) -> None:
    @app.task(name="orders/billing")
    async def bill() -> None: ...

    job = await bill.enqueue()
    assert [each.id for each in (await app.admin.jobs(task="orders/billing")).jobs] == [job.id]
