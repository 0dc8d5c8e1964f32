"""Topics and their groups, on every kind of store."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import msgspec
import pytest

from headrace import Headrace, Reject
from headrace.benchmark.asgi_client import counted
from tests.web.acting import post, question
from tests.web.browsing import Person, flash
from tests.web.hostile import ARGUMENTS, BREAKER, LONG, SCRIPT, TURNED, assert_harmless


class Order(msgspec.Struct):
    id: str
    note: str = ""


@pytest.fixture
def quick(namespace: str) -> Headrace:
    """An app whose store is not what the test is about."""
    return Headrace("memory://", namespace=namespace)


def declare(app: Headrace, **options: Any) -> Any:
    """A topic with a group that gives up what has a note."""
    orders = app.topic("orders", Order, key=lambda order: order.id, **options)

    @orders.subscribe("billing", ordered=True)
    async def handle(order: Order) -> None:
        if order.note:
            raise Reject(order.note)

    return orders


async def worked(app: Headrace, **wanted: int) -> None:
    """Have a worker run until these counts of the group are as wanted."""
    async with app.worker(), asyncio.timeout(20):
        while True:
            info = await app.admin.queue("billing@orders")
            if all(getattr(info, name) == count for name, count in wanted.items()):
                return
            await asyncio.sleep(0.02)


GROUP = {"topic": "orders", "group": "billing"}


async def test_a_group_with_a_stopped_key_is_seen_and_freed(app: Headrace) -> None:
    orders = declare(app, shards=2)
    note = f"{SCRIPT}{BREAKER}{TURNED}"
    dead = await orders.publish(Order(BREAKER, note))
    await orders.publish(Order(BREAKER))
    await orders.publish(Order("fine"))
    await worked(app, dead=1, waiting=0, running=0)
    async with Person(app) as person:
        for path, query in (("/topics", {}), ("/topic", {"name": "orders"}), ("/group", GROUP)):
            page = await person.page(path, **query)
            assert_harmless(page)
            assert "billing" in page
        for path, query in (("/topics", {}), ("/topic", {"name": "orders"})):
            assert "1 key stopped, 1 event blocked" in await person.page(path, **query)
        overview = await person.page("/")
        assert "has 1 stopped key, with 1 event blocked behind it" in overview
        page = await person.page("/group", **GROUP)
        assert "1 key is stopped, the first for " in page
        assert "1 behind stopped keys" in page
        assert f"/job?id={dead}" in page
        assert "Stopped by event" in page
        answer = await post(person, "free_key", key=BREAKER, **GROUP)
        assert flash(answer.text) == f"Freed key {BREAKER}: its events are handled again."
        answer = await post(person, "free_key", key=BREAKER, **GROUP)
        assert "is not stopped any more" in flash(answer.text)
        answer = await post(person, "replay", id=dead, queue="billing@orders")
        assert flash(answer.text) == "1 job replayed."


async def test_an_event_behind_a_stopped_key_leads_to_the_one_that_stopped_it(
    app: Headrace,
) -> None:
    orders = declare(app, shards=2)
    dead = await orders.publish(Order("o-1", "no card"))
    behind = await orders.publish(Order("o-1"))
    await worked(app, dead=1, waiting=0, running=0)
    async with Person(app) as person:
        page = await person.page("/jobs", state="blocked")
        assert "waits behind the stopped key <bdi>o-1</bdi>" in page
        assert re.search(rf'href="[^"]*id={dead}&amp;queue=billing%40orders[^"]*">its dead', page)
        page = await person.page("/job", id=behind)
        assert re.search(rf'event <a class="id" href="[^"]*id={dead}&amp;queue=billing', page)


async def test_the_latest_events_are_shown_with_their_data_as_text(app: Headrace) -> None:
    orders = declare(app)
    for number in range(30):
        await orders.publish(Order(f"o-{number}", f"{SCRIPT}{TURNED}"))
    last = await orders.publish(Order("long", LONG))
    async with Person(app) as person:
        page = await person.page("/topic", name="orders")
        assert_harmless(page)
        assert page.index(last) < page.index("o-29") < page.index("o-12")
        assert "o-3&#34;" not in page
        assert "1.0 MiB" in page


async def test_hostile_data_of_events_is_text(quick: Headrace) -> None:
    topic = quick.topic("anything", Any)
    async with quick as app, Person(app) as person:
        for value in ARGUMENTS.values():
            await topic.publish(value)
        assert_harmless(await person.page("/topic", name="anything"))


async def test_data_that_is_redacted_is_not_shown(quick: Headrace) -> None:
    orders = declare(quick)
    async with quick as app, Person(app, redact=lambda task, value: f"[{task}]") as person:
        id = await orders.publish(Order("o-1", "4111"))
        await worked(app, dead=1)
        pages = [await person.page("/topic", name="orders"), await person.page("/group", **GROUP)]
        pages.append(await person.page("/job", id=id, queue="billing@orders"))
        for page in pages:
            assert "[@orders]" in page
            assert "&#34;4111&#34;" not in page


async def test_a_group_is_paused_moved_and_removed_each_after_a_question(app: Headrace) -> None:
    orders = declare(app)
    for number in range(3):
        await orders.publish(Order(f"o-{number}"))
    await worked(app, waiting=0, running=0)
    async with Person(app) as person:
        await post(person, "pause", queue="billing@orders")
        assert "Resume" in await person.page("/group", **GROUP)
        asked = await question(person, "rewind", to="start", **GROUP)
        assert "Move group billing of topic orders to the oldest event" in asked
        assert (await app.admin.topic("orders")).groups[0].behind == 0
        await post(person, "rewind", to="start", **GROUP)
        assert (await app.admin.topic("orders")).groups[0].behind == 3
        await post(person, "rewind", to="time", time="2030-01-01T00:00", **GROUP)
        assert (await app.admin.topic("orders")).groups[0].behind == 3
        await post(person, "rewind", to="new", **GROUP)
        assert (await app.admin.topic("orders")).groups[0].behind == 0
        asked = await question(person, "remove_group", **GROUP)
        assert "Remove group billing of topic orders" in asked
        answer = await post(person, "remove_group", **GROUP)
        assert flash(answer.text) == "Removed group billing of topic orders."
        assert not (await app.admin.topic("orders")).groups


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"to": "the moon"},
        {"to": "time"},
        {"to": "time", "time": "soon"},
        {"to": "time", "time": "0001-01-01T00:00+01:00"},
    ],
)
async def test_a_place_that_cannot_be_read_is_refused(
    quick: Headrace, fields: dict[str, str]
) -> None:
    declare(quick)
    async with quick as app, Person(app) as person:
        answer = await post(person, "rewind", sure="", **GROUP, **fields)
        assert answer.status_code == 400


async def test_a_group_that_a_worker_serves_is_not_removed(quick: Headrace) -> None:
    orders = declare(quick)
    async with quick as app, Person(app) as person:
        await orders.publish(Order("o-1"))
        async with app.worker():
            answer = await post(person, "remove_group", **GROUP)
            assert "stop it first" in flash(answer.text)


async def test_what_there_is_not_is_not_found(quick: Headrace) -> None:
    declare(quick)
    async with quick as app, Person(app) as person:
        assert (await person.get("/topic", name=SCRIPT)).status_code == 404
        assert (await person.get("/group", topic="orders", group="nobody")).status_code == 404
        assert (await person.get("/topic")).status_code == 400
        assert_harmless((await person.get("/topic", name=SCRIPT)).text)


async def test_topics_are_listed_twenty_at_a_time_with_few_calls(quick: Headrace) -> None:
    for number in range(45):
        quick.topic(f"topic-{number:02}", Order)
    async with quick as app, Person(app) as person:
        store = await counted(app)
        page = await person.page("/topics")
        # Two for each shard of the topics on the page, and some for all of them.
        assert store.calls.total() <= 50
        assert "45 topics" in page
        assert "topic-19" in page
        assert "topic-20" not in page
        assert "topic-44" in await person.page("/topics", page="3")
        assert "topic-44" in await person.page("/topics", page="999")
        page = await person.page("/topics", search="Topic-07")
        assert "1 topic<" in page
        assert "No topic has this" in html.unescape(await person.page("/topics", search=BREAKER))
