"""The pages of the frame: what they show, on every store."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from functools import partial

import pytest

from headrace import Headrace, Retry
from headrace.benchmark.asgi_client import counted
from headrace.core.workers import SUPERVISORS, Scaled, SupervisorRecord, encode_record
from tests.admin.burying import bury, envelope
from tests.browser.shop import has_dead, until
from tests.web.browsing import Person


@pytest.fixture
async def person(app: Headrace) -> AsyncIterator[Person]:
    async with Person(app) as person:
        yield person


def words(page: str) -> str:
    """What a page says."""
    main = page[page.index("<main") :]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


async def test_a_queue_that_nobody_knows_is_not_shown_as_an_empty_one(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async with Person(app) as person:
        unheard = "The app declares no queue of this name"
        assert unheard in await person.page("/queue", name="nosuch")
        assert unheard not in await person.page("/queue", name="mail")


async def test_an_empty_store_has_complete_pages(person: Person) -> None:
    for path in ("/", "/queues", "/workers", "/schedules", "/actions", "/action?id=x"):
        assert "<h1>" in await person.page(path)


async def test_where_nothing_has_happened_the_overview_says_how_to_begin(
    app: Headrace, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.stats_cache._MAX_AGE", 0.0)

    @app.task
    async def send() -> None: ...

    invitation = (
        "Start a worker with headrace worker shop:app ; jobs that your code sends with enqueue"
    )
    assert invitation in words(await person.page("/"))
    job = await send.enqueue()
    assert invitation not in words(await person.page("/"))
    async with app.worker():
        await job.result(30)
        assert invitation not in words(await person.page("/"))
    assert invitation not in words(await person.page("/")), "there is something in the charts"


async def test_the_overview_shows_how_all_is(app: Headrace, person: Person) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await bury(app, [envelope("invoice")], queue="mail")
    async with app.worker():
        await asyncio.gather(*[job.result(30) for job in [await send.enqueue() for _ in range(5)]])
        page = words(await person.page("/"))
    await send.enqueue()
    assert "Dead 1" in page
    assert "Workers 1" in page
    assert "invoice mail ValueError: no such user" in page
    assert "Done per minute: done latest 5, most 5" in await person.page("/")
    after = words(await person.page("/"))
    assert "Waiting 1" in after
    assert "mail no worker reads it" in after


async def test_a_queue_shows_its_tasks(app: Headrace, person: Person) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    async with app.worker():
        await (await send.enqueue()).result(30)
    await app.admin.pause("mail", "send")
    page = await person.page("/queue", name="mail", span="15m")
    assert re.search(r"send paused 1 1 0 0 (&lt;)?[\d.]+ m?s", words(page))
    assert 'href="/jobs?queue=mail&amp;state=dead"' not in page
    assert 'href="/dead?queue=mail"' in page
    for span in ("1h", "6h", "24h"):
        assert "Figures as a table" in await person.page("/queue", name="mail", span=span)


async def test_a_group_is_shown_like_a_queue(app: Headrace, person: Person) -> None:
    orders = app.topic("orders", str, shards=2)

    @orders.subscribe("billing")
    async def bill(order: str) -> None: ...

    async with app.worker():
        await orders.publish("o-1")
    page = await person.page("/queue", name="billing@orders")
    assert "Group billing@orders" in page
    assert "/group?topic=orders&amp;group=billing" in page


async def told_of(person: Person, id: str) -> str:
    """What the page of the workers says, once it tells of a job."""
    async with asyncio.timeout(30):
        while True:
            page = words(await person.page("/workers"))
            if id in page:
                return page
            await asyncio.sleep(0.02)


async def test_workers_say_what_they_run(app: Headrace, person: Person) -> None:
    go = asyncio.Event()

    @app.task(queue="mail")
    async def send() -> None:
        await go.wait()

    store = (await app.session()).store
    scaled = Scaled(3, 1, 8, 48, ups={"backlog": 2}, last="3 processes: 400 jobs wait")
    await store.kv_set(SUPERVISORS, "h-1", encode_record(SupervisorRecord("web-1", 7, scaled)))
    async with app.worker(queues={"mail": 3, "default": 1}, concurrency=4):
        job = await send.enqueue()
        text = await told_of(person, job.id)
        page = await person.page("/workers")
        go.set()
    assert 'data-label="Processes"><span>3 ' in page
    assert "Last change" in page
    assert "Slots in use 1 of 4" in text
    assert "Reads mail" in text
    assert f"send mail {job.id}" in text
    assert "web-1, process 7 3 of 1–8 48 2 / 0 / 0 3 processes: 400 jobs wait" in text  # noqa: RUF001


async def test_schedules_show_their_next_times(app: Headrace, person: Person) -> None:
    @app.cron("0 3 * * *", timezone="Europe/Berlin")
    async def nightly() -> None: ...

    page = words(await person.page("/schedules"))
    assert "0 3 * * * (Europe/Berlin)" in page
    assert page.count("03:00:00 CE") == 5
    asked = await counted(app)
    await person.page("/schedules")
    assert asked.calls.total() <= 3, "the times are known"


LISTS = (
    "/queues",
    "/jobs",
    "/dead",
    "/dead?by=error",
    "/schedules",
    "/topics",
    "/workers",
    "/actions",
)


@pytest.mark.parametrize("path", LISTS)
async def test_every_list_is_there_as_json(app: Headrace, path: str) -> None:
    @app.task
    async def send(to: bytes) -> None: ...

    app.every(60, name="often", args=[b"x"])(send)
    await app.topic("orders", str).publish("o-1")
    await send.enqueue(b"\xff")
    await bury(app, [envelope("send", b"\xff", {1: {2}})], queue="graves")
    await app.admin.by("ann").pause("graves")
    async with app.worker(queues=["none"]), Person(app) as person:
        sign = "&" if "?" in path else "?"
        assert f'{sign.replace("&", "&amp;")}format=json" download>JSON' in await person.page(path)
        answer = await person.get(f"{path}{sign}format=json")
        assert answer.headers["content-type"] == "application/json"
        assert "attachment" in answer.headers["content-disposition"]
        rows = json.loads(answer.text)
        assert rows
        assert all(isinstance(row, dict) for row in rows)


async def test_a_page_without_a_list_is_no_json(app: Headrace) -> None:
    async with Person(app) as person:
        for path in ("/?format=json", "/?format=json&list=none", "/queues?format=json&list=x"):
            assert (await person.get(path)).status_code == 404


PARTS = {
    "/": ("queues", "workers", "dead", "figures"),
    "/queue?name=mail": ("tasks", "workers", "figures"),
    "/task?queue=mail&name=send": ("figures",),
    "/topic?name=orders": ("groups", "shards", "events"),
    "/group?topic=orders&group=billing": ("keys", "dead", "figures"),
}


async def test_small_tables_are_there_as_json_too(app: Headrace) -> None:
    orders = app.topic("orders", str, shards=2, key=lambda event: event)

    @orders.subscribe(group="billing", ordered=True, on_failure="block", retry=Retry(1))
    async def bill(event: str) -> None:
        raise ValueError(event)

    @app.task(queue="mail")
    async def send(to: str) -> None: ...

    await orders.publish("ann")
    await send.enqueue("ann")
    async with app.worker(), Person(app) as person:
        await until(partial(app.admin.dead, "billing@orders"))
        for path, parts in PARTS.items():
            page = await person.page(path)
            for part in parts:
                sign = "&" if "?" in path else "?"
                query = f"{sign}format=json&list={part}"
                assert f'{query.replace("&", "&amp;")}"' in page, part
                rows = json.loads((await person.get(path + query)).text)
                assert rows, part
                assert all(isinstance(row, dict) for row in rows)
        found = await person.get("/group?topic=orders&group=billing&format=json&list=keys")
        assert [row["key"] for row in json.loads(found.text)] == ["ann"]


async def test_a_task_has_charts_of_its_own(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send(number: int) -> None: ...

    @app.task(queue="mail")
    async def load() -> None: ...

    jobs = await app.enqueue_many([*(send.call(number) for number in range(3)), load.call()])
    async with app.worker(), asyncio.timeout(30):
        for job in jobs:
            await job.result()
    async with Person(app) as person:
        link = re.search(r'href="(/task[^"]*)">send', await person.page("/queue", name="mail"))
        assert link
        page = await person.page(html.unescape(link[1]))
        assert "Task send" in page
        assert re.search(r'Done</dt>\s*<dd><span class="value">3<', page)
        assert page.count("<svg viewBox") == 4
        page = await person.page("/task", queue="mail", name="load")
        assert re.search(r'Done</dt>\s*<dd><span class="value">1<', page)


async def test_a_schedule_shows_its_arguments_and_how_its_last_job_ended(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send(to: str, copies: int = 1) -> None: ...

    app.every(0.2, name="often", args=["ann"])(send)
    async with Person(app) as person:
        page = html.unescape(await person.page("/schedules"))
        assert '{ "to": "ann"' in page
        async with app.worker(), asyncio.timeout(30):
            while "good" not in page:
                await asyncio.sleep(0.05)
                page = await person.page("/schedules")
        found = re.search(r'href="(/find[^"]*)"><span class="badge good">done', page)
        assert found
        assert "send" in await person.page(html.unescape(found[1]))


async def test_a_schedule_shows_its_last_ten_runs(app: Headrace) -> None:
    failing = True

    @app.every(0.1, name="often")
    @app.task(retry=Retry(1))
    async def tidy() -> None:
        nonlocal failing
        failing = not failing
        if failing:
            raise ValueError("dust")

    async with Person(app) as person:
        async with app.worker():
            await until(partial(has_dead, app, "default", 6))
        page = await person.page("/schedules")
        assert "9 runs before" in page
        assert page.count('href="/find?id=often') == 10
        assert page.count(">done<") + page.count(">waiting<") + page.count(">dead<") == 10
        assert ">done<" in page
        assert ">dead<" in page
        (row,) = json.loads((await person.get("/schedules?format=json")).text)
        assert len(row["runs"]) == 10
        job = await app.schedules.run_now("often")
        page = await person.page("/schedules")
        assert page.count(f'href="/find?id={job.id}"') == 1
        assert page.count(">run now<") == 1
        assert row["runs"][0]["tick"] > row["runs"][-1]["tick"]


async def test_charts_without_a_task_are_of_all_tasks(app: Headrace) -> None:
    @app.task(queue="mail", name="send")
    async def send(number: int) -> None: ...

    @app.task(queue="mail", name="load")
    async def load() -> None: ...

    async with app.worker(), Person(app) as person:
        jobs = [*[await send.enqueue(number) for number in range(3)], await load.enqueue()]
        for job in jobs:
            await job.result(timeout=20)
        for path in ("/?", "/queue?name=mail&"):
            rows = json.loads((await person.get(f"{path}format=json&list=figures")).text)
            assert sum(row["Done per minute, done"] for row in rows) == 4
