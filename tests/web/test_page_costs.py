"""Pages that someone leaves open: none makes more than five calls to the store a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from headrace import Headrace, Reject, group
from headrace.benchmark.asgi_client import CountedStore, counted
from headrace.web.auth.users import User
from headrace.web.routes import VIEWS
from headrace.web.visit import Visit
from tests.admin.burying import bury, envelope
from tests.web.browsing import Person

Place = tuple[str, dict[str, str]]


class Order(msgspec.Struct):
    id: str


@pytest.fixture
async def places(namespace: str) -> AsyncIterator[tuple[Headrace, dict[str, Place]]]:
    """Pages of a store in which there is something of everything."""
    app = Headrace("memory://", namespace=namespace)

    @app.task
    async def load(number: int) -> int:
        return number

    @app.task(queue="sums")
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    async with app:
        orders = app.topic("orders", Order, key=lambda order: order.id, shards=4)

        @orders.subscribe("billing", ordered=True)
        async def handle(order: Order) -> None:
            raise Reject("no")

        (dead, *_) = await bury(app, [envelope("load", n) for n in range(1_200)], queue="graves")
        event = await orders.publish(Order("o-1"))
        async with app.worker(), asyncio.timeout(20):
            while (await app.admin.queue("billing@orders")).dead != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await app.enqueue_many(load.call(number) for number in range(3_000))
        for number in range(60):
            await load.options(queue=f"queue-{number}").enqueue(number)
        flow = await app.enqueue(group([load.call(n) for n in range(50)]).then(add.call()))
        last = await load.enqueue(1)
        yield app, _places(dead, event, flow.id, last.id)


def _places(dead: str, event: str, flow: str, last: str) -> dict[str, Place]:
    return {
        "jobs": ("/jobs", {}),
        "jobs by text": ("/jobs", {"text": "nowhere"}),
        "jobs of one queue": ("/jobs", {"queue": "default", "state": "waiting"}),
        "dead": ("/dead", {}),
        "dead by text": ("/dead", {"text": "nowhere"}),
        "a waiting job": ("/job", {"id": last, "queue": "default"}),
        "a dead job": ("/job", {"id": dead, "queue": "graves"}),
        "a job of a flow": ("/job", {"id": flow, "queue": "sums"}),
        "an event": ("/job", {"id": event, "queue": "billing@orders"}),
        "topics": ("/topics", {}),
        "topic": ("/topic", {"name": "orders"}),
        "group": ("/group", {"topic": "orders", "group": "billing"}),
    }


async def test_no_page_makes_more_than_five_calls_a_second(
    places: tuple[Headrace, dict[str, Place]],
) -> None:
    app, pages = places
    dashboard = Person(app).site.state.dashboard
    store = await counted(app)
    rates = {
        name: await _rate(store, Visit(dashboard, User("ann"), path, query))
        for name, (path, query) in pages.items()
    }
    assert not {name: rate for name, rate in rates.items() if rate > 5}


async def _rate(store: CountedStore, visit: Visit) -> float:
    store.calls.clear()
    page = await VIEWS[visit.path](visit)
    assert page.live
    return store.calls.total() / page.live
