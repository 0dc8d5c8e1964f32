"""What pages cost, how they are paged, and where they are mounted: alike on every store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from headrace import Headrace, Reject, Retry, dashboard
from headrace.benchmark.asgi_client import counted
from headrace.store.topics import Group, Position
from headrace.web.page import HtmlPage
from headrace.web.routes import VIEWS
from headrace.web.stats_cache import StatsCaches
from headrace.web.visit import Visit
from tests.admin.burying import bury, envelope
from tests.web.browsing import TOKEN, Person


@pytest.fixture
def store_url() -> str:
    return "memory://"


@pytest.fixture
async def person(app: Headrace) -> AsyncIterator[Person]:
    async with Person(app) as person:
        yield person


async def test_queues_are_found_by_name_and_paged(app: Headrace, person: Person) -> None:
    for number in range(101):
        await app.admin.pause(f"q-{number:03}")
    page = await person.page("/queues")
    assert "q-099" in page
    assert "q-100" not in page
    following = re.search(r'href="(/queues\?after=[^"]+)" rel="next"', page)
    assert following
    assert "q-100" in await person.page(following[1])
    found = await person.page("/queues", search="Q-05")
    assert "10 queues found" in found


async def test_the_overview_shows_the_fullest_of_many_queues(app: Headrace, person: Person) -> None:
    await bury(app, [envelope("invoice")], queue="q-077")
    for number in range(150):
        await app.admin.pause(f"q-{number:03}")
    page = await person.page("/")
    assert "the 100 with the most jobs, of 150" in page
    assert page.count('data-key="q-') == 100
    assert 'data-key="q-q-077"' in page


async def test_a_query_without_end_is_not_repeated_in_each_row(
    app: Headrace, person: Person
) -> None:
    for number in range(20):
        await app.admin.pause(f"q-{number:03}")
    query = "&".join(f"x{number}=yyyyyyyy" for number in range(4_000))
    page = await person.page(f"/queues?search=q&{query}")
    assert len(page) < 300_000
    assert page.count('name="back" value="/queues"') == 20


async def test_events_in_groups_are_part_of_the_overview(app: Headrace, person: Person) -> None:
    orders = app.topic("orders", str, shards=2)

    @orders.subscribe("billing", retry=Retry(1))
    async def bill(order: str) -> None:
        raise Reject("no such order")

    await orders.publish("o-1")
    async with app.worker(), asyncio.timeout(20):
        while (await app.admin.queue("billing@orders")).dead != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await orders.publish("o-2")
    page = await person.page("/")
    assert re.search(r"Dead</a></dt>\s*<dd><span class=\"value\">1<", page)
    assert re.search(r"Waiting</a></dt>\s*<dd><span class=\"value\">1<", page)
    assert "2 events in groups of topics" in page
    assert "no such order" in page


async def test_the_overview_of_100_queues_asks_the_store_19_times_at_most(
    app: Headrace, person: Person
) -> None:
    @app.task
    async def send() -> None: ...

    orders = app.topic("orders", str, shards=3)

    @orders.subscribe("billing")
    async def bill(order: str) -> None: ...

    await orders.publish("o-1")
    await app.admin.pause("never-sent-to")
    buried = []
    for number in range(8):
        buried += await bury(app, [envelope("invoice")], queue=f"q-{number:03}")
    for number in range(100):
        await send.options(queue=f"q-{number:03}").enqueue()
    asked = await counted(app)
    page = await person.page("/")
    assert asked.calls.total() <= 19, asked.calls
    latest = [f"/job?id={id}" in page for id in buried]
    assert latest == [False] * 2 + [True] * 6, "of each queue one died, the last ones latest"


@pytest.mark.parametrize("path", ["/", "/queues", "/topics", "/jobs", "/dead", "/find?id=unknown"])
async def test_a_page_asks_20_times_at_most_however_many_groups_there_are(
    app: Headrace, person: Person, path: str
) -> None:
    for number in range(50):
        for shard in ("", "#1", "#2", "#3"):
            await app.store.join(f"mail@orders-{number:02}{shard}", Group(), Position("new"))
    asked = await counted(app)
    await person.get(path)
    assert asked.calls.total() <= 20, asked.calls


@pytest.mark.parametrize(
    "path", ["/", "/queues", "/queue?name=mail", "/workers", "/schedules", "/actions"]
)
async def test_a_page_that_is_open_asks_5_times_a_second_at_most(
    app: Headrace, person: Person, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("mail", "sms", "push"):
        await bury(app, [envelope("invoice")], queue=queue)
    await person.page(path)
    asked, looks = await counted(app), []
    dashboard = person.site.state.dashboard
    dashboard.stats = StatsCaches(app.admin)
    shown = VIEWS[path.partition("?")[0]]

    async def looked(visit: Visit) -> HtmlPage:
        looks.append(await shown(visit))
        return looks[-1]

    monkeypatch.setitem(VIEWS, path.partition("?")[0], looked)
    await person.page(path)
    (page,) = looks
    assert page.live
    assert asked.calls.total() / page.live <= 5, asked.calls


async def test_mounted_under_a_prefix_all_addresses_begin_with_it(app: Headrace) -> None:
    outer = Starlette(routes=[Mount("/ops/jobs", dashboard(app, token=TOKEN))])
    async with Person(outer, home="http://127.0.0.1:8000/ops/jobs") as person:
        page = await person.page("/queue?name=mail")
        addresses = re.findall(r'(?:href|src|action|data-live)="([^"]*)"', page)
        assert addresses
        assert all(each.startswith(("/ops/jobs/", "#")) for each in addresses)
        assert 'aria-current="true">Queues' in page
        assert (await person.get("/static/live.js")).status_code == 200
        missing = await person.get("/static/nope")
        assert 'href="/ops/jobs/queues"' in missing.text
        assert "set-cookie" not in missing.headers, "the visitor is known there too"
        answer = await person.do("pause", back="/queues", queue="mail")
        assert answer.headers["location"] == "/ops/jobs/queues"
        assert "Paused queue mail" in await person.page("/queues")


async def test_metrics_are_of_the_whole_store(app: Headrace, person: Person) -> None:
    await app.admin.pause("mail")
    answer = await person.get("/metrics")
    assert answer.status_code == 200
    assert 'headrace_queue_paused{queue="mail"} 1.0' in answer.text
