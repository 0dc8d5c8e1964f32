"""The page of one job, on every kind of store."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import msgspec
import pytest

from headrace import Context, Headrace, Reject, ResultLost, Retry, chain, group
from tests.admin.burying import bury, envelope, one_attempt
from tests.web.acting import post
from tests.web.browsing import Person, flash
from tests.web.hostile import ARGUMENTS, BREAKER, CONTROL, LONG, SCRIPT, TURNED, assert_harmless


class Order(msgspec.Struct):
    id: str
    note: str = ""


@pytest.fixture
def quick(namespace: str) -> Headrace:
    """An app whose store is not what the test is about."""
    return Headrace("memory://", namespace=namespace)


async def until(person: Person, text: str, **query: str) -> str:
    """The page of a job, once it says so."""
    while True:
        page = (await person.get("/job", **query)).text
        if text in page:
            return page
        await asyncio.sleep(0.02)


async def test_a_job_is_shown_with_its_life_and_all_that_it_says(app: Headrace) -> None:
    held = asyncio.Event()

    @app.task(queue="slow")
    async def crunch(ctx: Context, what: str) -> None:
        ctx.log(f"begun {SCRIPT}{TURNED}")
        ctx.progress(0.25, BREAKER)
        async with ctx.once("charged"):
            pass
        held.set()
        await asyncio.Event().wait()

    job = await crunch.options(headers={"x-who": TURNED}, key=BREAKER).enqueue("numbers")
    async with app.worker(drain=0), Person(app) as person:
        async with asyncio.timeout(20):
            await held.wait()
            page = await until(person, "25 %", id=job.id, queue="slow")
        assert_harmless(page)
        assert "It is running on worker" in html.unescape(page)
        assert '<progress max="1" value="0.25">' in page
        assert "begun &lt;script&gt;" in page
        assert "<code>charged</code>" in page
        assert "x-who" in page
        assert "&#34;what&#34;: &#34;numbers&#34;" in page
        assert "1 at a time" in page
        log = await person.get("/raw", id=job.id, queue="slow", part="log")
        assert log.text.startswith("begun <script>alert(1)</script>invoice\\u202e")
        answer = await person.do("cancel", id=job.id, queue="slow", sure="yes")
        page = (await person.http.get(answer.headers["location"])).text
        assert "1 asked to end" in flash(page)


async def test_a_done_job_shows_its_result(app: Headrace) -> None:
    @app.task(result_ttl=60)
    async def make() -> dict[str, str]:
        return {"made": SCRIPT}

    job = await make.enqueue()
    async with app.worker(), Person(app) as person:
        await job.result(timeout=20)
        page = await person.page("/job", id=job.id)
        assert "{\n  &#34;made&#34;: &#34;&lt;script&gt;alert(1)&lt;/script&gt;&#34;\n}" in page
        assert "It has been done since " in page
        assert "<h1>make</h1>" in page
        assert "cannot be read" not in page
        assert "attempt 0" not in page


async def test_a_done_job_shows_all_of_it_until_it_is_forgotten(app: Headrace) -> None:
    @app.task(retry=Retry(3, backoff="fixed", base=0.001), result_ttl=0)
    async def send(ctx: Context, to: str) -> None:
        if ctx.attempt < 3:
            raise ConnectionError(f"no answer {ctx.attempt}")

    job = await send.enqueue("ann@example.com")
    async with app.worker(), Person(app) as person:
        page = await until(person, "It has been done since ", id=job.id)
        for text in ("<h1>send</h1>", "ann@example.com", "no answer 1", "no answer 2", "Attempt 3"):
            assert text in page
        assert ", after 3 attempts." in page
        assert "Not kept." in page
        listed = await person.page("/jobs", state="done")
        assert job.id in listed
        assert "Forget selected" in listed
        answer = await post(person, "forget", id=job.id, queue="default")
        assert "1 job forgotten." in answer.text
        assert (await person.get("/job", id=job.id)).status_code == 404


async def test_the_graph_of_a_flow_stays_when_it_ends(app: Headrace) -> None:
    @app.task(result_ttl=0)
    async def add(number: int) -> int:
        return number + 1

    sent = await app.enqueue(chain(add.call(1), add.call()))
    async with app.worker(), Person(app) as person:
        page = await until(person, "It has been done since ", id=sent.id)
        assert page.count('class="node done') == 2


@pytest.mark.parametrize("value", ARGUMENTS.values(), ids=ARGUMENTS.keys())
async def test_hostile_arguments_are_text_in_every_page(quick: Headrace, value: Any) -> None:
    async with quick as app, Person(app) as person:
        (id,) = await bury(app, [envelope("gone", value)])
        for path in ("/job", "/dead", "/dead_job"):
            assert_harmless(await person.page(path, id=id))
        raw = await person.get("/raw", id=id, part="arguments")
        assert raw.headers["content-type"] == "text/plain; charset=utf-8"
        assert raw.headers["content-disposition"] == 'attachment; filename="arguments.txt"'
        assert raw.headers["x-content-type-options"] == "nosniff"
        assert all(char == "\n" or char.isprintable() for char in raw.text)


async def test_of_a_long_argument_the_page_has_the_beginning_and_a_link_to_all(
    quick: Headrace,
) -> None:
    async with quick as app, Person(app) as person:
        (id,) = await bury(app, [envelope("gone", LONG)])
        page = await person.page("/job", id=id)
        assert "… 1,048,576 characters" in page
        assert f"/raw?id={id}&amp;queue=default&amp;part=arguments" in page
        assert len((await person.get("/raw", id=id, part="arguments")).text) > 1_048_576
        assert (await person.get("/raw", id=id, part="envelope")).status_code == 404


async def test_errors_and_tracebacks_are_text(quick: Headrace) -> None:
    async with quick as app, Person(app) as person:
        history = one_attempt(f"{SCRIPT}{BREAKER}{CONTROL}")
        (id,) = await bury(app, [envelope("gone")], history=history, reason="rejected")
        page = await person.page("/job", id=id)
        assert_harmless(page)
        assert "<summary>Traceback</summary><pre>trace</pre>" in page
        assert "2.5 s on worker-1" in page


async def test_what_is_redacted_is_in_no_page_nor_found_by_a_search(quick: Headrace) -> None:
    @quick.task(result_ttl=60)
    async def pay(card: str, cents: int) -> str:
        return card

    def redact(task: str, value: Any) -> Any:
        return {**value, "card": "***"} if isinstance(value, dict) else "***"

    async with quick as app, Person(app, redact=redact) as person:
        (dead,) = await bury(app, [envelope(pay.name, "4111 1111", 995)])
        sent = await pay.enqueue("4111 1111", 995)
        for path in ("/job", "/dead", "/dead_job"):
            page = await person.page(path, id=dead)
            assert "4111 1111" not in page
            assert "995" in page
        assert "4111 1111" not in (await person.get("/raw", id=dead, part="arguments")).text
        assert sent.id in await person.page("/jobs", queue="default")
        assert sent.id not in await person.page("/jobs", text="4111 1111")
        assert dead not in await person.page("/dead", text="4111 1111")
        async with app.worker():
            assert await sent.result(timeout=20) == "4111 1111"
        assert "4111 1111" not in await person.page("/job", id=sent.id)


async def test_nothing_is_shown_if_the_redact_hook_fails(quick: Headrace) -> None:
    def redact(task: str, value: Any) -> Any:
        raise KeyError(task)

    async with quick as app, Person(app, redact=redact) as person:
        (id,) = await bury(app, [envelope("pay", "4111 1111")])
        for path in ("/job", "/dead", "/raw"):
            page = (await person.get(path, id=id, part="arguments")).text
            assert "4111 1111" not in page
            assert "redact failed" in page


async def test_a_flow_is_drawn_with_a_link_to_each_job(app: Headrace) -> None:
    @app.task
    async def load(number: int) -> int:
        return number

    @app.task(queue="sums")
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    flow = await app.enqueue(group([load.call(1), load.call(2)]).then(add.call()))
    async with Person(app) as person:
        page = await person.page("/job", id=flow.id, queue="sums")
        assert page.count('<path class="edge"') == 2
        links = {html.unescape(each) for each in re.findall(r'<a href="(/job\?[^"]*)"', page)}
        assert len(links) == 3
        assert 'class="node waiting' in page
        assert ">blocked</text>" in page
        assert "The first argument comes from the jobs that it waits for." in page
        assert "As a list" in page


async def test_finding_leads_to_the_job_or_says_that_there_is_none(quick: Headrace) -> None:
    @quick.task
    async def send(to: str) -> None: ...

    async with quick as app, Person(app) as person:
        job = await send.enqueue("ann")
        assert "It is waiting" in await person.page("/find", id=f" {job.id} ")
        missing = await person.get("/find", id=BREAKER)
        assert missing.status_code == 404
        assert "There is no job and no event" in missing.text
        assert_harmless(missing.text)
        assert "That is not an id" in (await person.get("/find", id="a\nb")).text
        assert "Id of a job" in await person.page("/find")
        assert (await person.get("/job", id="nothing")).status_code == 404
        assert (await person.get("/job")).status_code == 400


async def test_an_event_that_several_groups_have_is_a_choice(app: Headrace) -> None:
    orders = app.topic("orders", Order, key=lambda order: order.id)
    for name in ("billing", "shipping"):

        @orders.subscribe(name, ordered=True)
        async def handle(order: Order) -> None:
            raise Reject("no")

    async with Person(app) as person:
        id = await orders.publish(Order("o-1", SCRIPT))
        async with app.worker(), asyncio.timeout(20):
            for name in ("billing", "shipping"):
                await until(person, "it is dead", id=id, queue=f"{name}@orders")
        page = await person.page("/find", id=id)
        assert "group billing of topic orders" in page
        assert "group shipping of topic orders" in page
        page = await person.page("/job", id=id, queue="billing@orders")
        assert "Event of orders" in page
        assert "In group &#39;billing&#39; of topic &#39;orders&#39; it is dead" in page
        assert "Edit and replay" not in page
        assert_harmless(page)


async def test_an_event_is_found_before_it_is_due_and_after_all_are_done_with_it(
    quick: Headrace,
) -> None:
    orders = quick.topic("orders", Order)
    async with quick as app, Person(app) as person:
        later = await orders.publish(Order("o-1"), delay=60)
        page = await person.page("/find", id=later)
        assert "then it is added to topic" in page
        answer = await person.do("cancel", id=later, sure="yes")
        page = (await person.http.get(answer.headers["location"])).text
        assert flash(page) == "1 job cancelled."
        over = await orders.publish(Order("o-2"))
        assert "which has no groups (yet)" in await person.page("/find", id=over)


async def test_a_result_that_cannot_travel_is_shown_as_what_it_was(app: Headrace) -> None:
    @app.task(queue="slow")
    def train() -> object:
        return {SCRIPT: object}

    job = await train.enqueue()
    async with app.worker(), Person(app) as person:
        with pytest.raises(ResultLost):
            await job.result(20)
        page = await until(person, "Lost, as it cannot travel.", id=job.id, queue="slow")
    assert_harmless(page)
    assert "&lt;class &#39;object&#39;&gt;" in page
    assert "Not kept." not in page
