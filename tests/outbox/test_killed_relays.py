"""Relays are killed at every step; nothing is lost, nothing is there twice, order is kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from headrace import Headrace
from headrace.outbox import Outbox
from tests import forked
from tests.forked import ForkedProgram
from tests.outbox.databases import arrived, connect, count, transaction

pytestmark = pytest.mark.nightly

# In one step there are three sends, and as many removals: two queues and a topic.
POINTS = [
    *("take:before:1", "take:after:1"),
    *("send:before:1", "send:after:1", "send:before:3", "send:after:3"),
    *("sent:before:2", "sent:after:2"),
]


class Shop:
    """An app with an outbox, and what was written to it."""

    def __init__(self, app: Headrace, database: str) -> None:
        self.app = app
        self.database = database
        self.outbox = Outbox(app)
        self.orders = app.topic("orders", str)
        self.work = app.task(name="work")(_work)
        self.written: dict[str, list[str]] = {"mail": [], "default": [], "orders": []}

    def write(self, count: int) -> None:
        """Rows for each destination in turn, in one transaction."""
        with transaction(self.database) as connection:
            for number in range(count):
                for queue in ("mail", "default"):
                    call = self.work.options(queue=queue).call(number)
                    self.written[queue].append(self.outbox.enqueue(connection, call).id)
                event = self.outbox.publish(connection, self.orders, f"order {number}")
                self.written["orders"].append(event)

    async def found(self) -> dict[str, list[str]]:
        """What is in the store, in its order."""
        queues = {queue: await arrived(self.app, queue) for queue in ("mail", "default")}
        return queues | {"orders": [event.id for event in await self.orders.read(limit=100_000)]}

    @contextmanager
    def relay(self, kill: str = "") -> Iterator[ForkedProgram]:
        """A relay in a process of its own; what is left of it is killed."""
        settings = {
            "RELAY_STORE": self.app.url,
            "HEADRACE_NAMESPACE": self.app.namespace,
            "RELAY_DATABASE": self.database,
            "RELAY_KILL": kill,
        }
        process = forked.start(
            *("-m", "tests.outbox.relaying"), cwd=forked.ROOT, env={**os.environ, **settings}
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(60)


@pytest.fixture
async def shop(lasting_url: str, namespace: str, database: str) -> AsyncIterator[Shop]:
    async with Headrace(lasting_url, namespace=namespace) as app:
        shop = Shop(app, database)
        with transaction(database) as connection:
            shop.outbox.create(connection)
        yield shop


@pytest.mark.parametrize("point", POINTS)
async def test_a_relay_may_be_killed_at_any_step(shop: Shop, point: str) -> None:
    shop.write(40)
    with shop.relay(kill=point) as relay:
        assert await asyncio.to_thread(relay.wait, 60) == -9
    assert count(shop.database) > 0
    shop.write(5)
    async with shop.outbox.relay(shop.database, poll=0.05):
        await _gone(shop.database, 0)
    assert await shop.found() == shop.written


async def test_relays_that_run_together_may_be_killed_again_and_again(shop: Shop) -> None:
    for _ in range(40):
        shop.write(50)
    left = count(shop.database)
    with shop.relay() as first:
        while left > 1500:
            with shop.relay() as second:
                await _gone(shop.database, left - 1500)
                left = count(shop.database)
                second.kill()
                if left < 3000:
                    first.kill()
        shop.write(50)
        with shop.relay():
            await _gone(shop.database, 0)
    assert await shop.found() == shop.written


async def _gone(database: str, until: int) -> None:
    """Return when no more rows than this are left."""
    connection = connect(database)
    try:
        async with asyncio.timeout(90):
            while True:
                (left,) = connection.execute("SELECT COUNT(*) FROM headrace_outbox").fetchone()
                connection.commit()
                if left <= until:
                    return
                await asyncio.sleep(0.005)
    finally:
        connection.close()


async def _work(number: int) -> None:
    """Something to send."""
