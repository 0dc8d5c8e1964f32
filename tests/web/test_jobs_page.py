"""The list of jobs: filters, pages, and what is done to those that were chosen."""

from __future__ import annotations

import html
import re
from collections.abc import Coroutine
from typing import Any

import pytest
from markupsafe import escape

from headrace import Headrace, State, Task
from headrace.benchmark.asgi_client import counted
from tests.admin.burying import bury, envelope, one_attempt
from tests.web.acting import fields_for, listed, post, question
from tests.web.browsing import Person, flash
from tests.web.hostile import BREAKER, SCRIPT, TURNED, assert_harmless


@pytest.fixture
def store_url() -> str:
    return "memory://"


def task_of(app: Headrace, queue: str = "mail") -> Task[[str], Coroutine[Any, Any, None]]:
    @app.task(queue=queue, name="send" if queue == "mail" else f"send-{queue}")
    async def send(to: str) -> None: ...

    return send


async def test_jobs_of_all_queues_are_listed_with_what_they_wait_for(app: Headrace) -> None:
    send, load = task_of(app), task_of(app, "files")
    first = await send.enqueue("ann")
    later = await load.options(delay=60).enqueue("bob")
    await send.options(key="ann").enqueue("ann")
    behind = await send.options(key="ann").enqueue("ann")
    async with Person(app) as person:
        page = await person.page("/jobs")
        assert set(listed(page)) >= {first.id, later.id, behind.id}
        assert "waits for <bdi>others of key &#39;ann&#39;</bdi>" in page
        assert "lane" not in page
        assert "lane" not in (await person.page("/job", id=behind.id)).lower()
        assert "due <time" in page
        assert f"/job?id={first.id}&amp;queue=mail" in page


async def test_where_nothing_is_unfinished_done_jobs_are_a_click_away(app: Headrace) -> None:
    async with Person(app) as person:
        assert '<a href="/jobs?state=done">Done jobs</a>' in await person.page("/jobs")
        assert ">Done jobs</a>" not in await person.page("/jobs", state="done")


async def test_jobs_are_told_apart_by_their_arguments(app: Headrace) -> None:
    send = task_of(app)
    for name in ("ann", "bob"):
        await send.enqueue(name)
    await send.enqueue("c" * 100_000)
    async with Person(app) as person:
        page = html.unescape(await person.page("/jobs"))
        assert '{ "to": "ann" }' in page
        assert '{ "to": "bob" }' in page
        assert len(page) < 40_000, "large ones are not decoded"


async def test_a_job_is_found_by_a_named_argument(app: Headrace) -> None:
    send = task_of(app)

    @app.task(queue="mail")
    async def charge(order: str, cents: int, paid: bool = False) -> None: ...

    await send.enqueue("o-17")
    first = await charge.enqueue("o-17", 995, paid=True)
    await charge.enqueue("o-170", 17)
    (dead,) = await bury(app, [envelope("charge", "o-17", 3)])
    async with Person(app) as person:
        for text in ("order=o-17", "Order=O-17", "cents=995", "paid=true"):
            assert listed(await person.page("/jobs", text=text)) == [first.id], text
        for text in ("order=17", "to=o-170", "cents=99", "order=", "=o-17"):
            assert listed(await person.page("/jobs", text=text)) == [], text
        assert listed(await person.page("/dead", text="order=o-17")) == [dead]
    async with Person(app, redact=lambda task, value: "(hidden)") as person:
        assert listed(await person.page("/jobs", text="order=o-17")) == []


async def test_a_job_that_never_ran_has_no_attempts(app: Headrace) -> None:
    job = await task_of(app).enqueue("ann")
    async with Person(app) as person:
        page = await person.page("/jobs")
        assert re.search(r'data-label="Attempts" class="num"><span class="none">0<', page)
        page = await person.page("/job", id=job.id)
        assert "has not run yet" in page
        assert "for its first attempt" in page


async def test_a_filter_narrows_the_list_and_stays_in_the_form(app: Headrace) -> None:
    send = task_of(app)
    ann, bob = await send.enqueue("ann"), await send.options(delay=60).enqueue("bob")
    async with Person(app) as person:
        assert listed(await person.page("/jobs", state="scheduled")) == [bob.id]
        assert listed(await person.page("/jobs", text="ANN", queue="mail")) == [ann.id]
        assert listed(await person.page("/jobs", task="load")) == []
        assert listed(await person.page("/jobs", to="2020-01-01T00:00")) == []
        assert len(listed(await person.page("/jobs", when="1h"))) == 2
        page = await person.page("/jobs", text=BREAKER, state="waiting")
        assert f'value="{escape(BREAKER)}"' in page
        assert "<option selected>waiting" in page
        assert_harmless(page)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"state": "asleep"}, "there is no state"),
        ({"cursor": "nonsense"}, "is not a cursor"),
        ({"queue": "nobody@nowhere"}, "nobody@nowhere"),
    ],
)
async def test_what_cannot_be_listed_is_said_beside_the_filter(
    app: Headrace, query: dict[str, str], sentence: str
) -> None:
    async with Person(app) as person:
        page = await person.page("/jobs", **query)
        assert sentence in page
        assert "Filter</button>" in page


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"from": "0001-01-01T00:00+01:00"},
        {"when": "1y"},
        {"looked": "x"},
        {"looked": "0"},
        {"looked": "1000000001"},
        {"looked": "9" * 5_000},
    ],
)
async def test_what_cannot_be_read_is_refused(app: Headrace, query: dict[str, str]) -> None:
    async with Person(app) as person:
        assert (await person.get("/jobs", **query)).status_code == 400


async def test_all_pages_together_show_every_job_once(app: Headrace) -> None:
    send = task_of(app)
    sent = {(await send.enqueue(str(number))).id for number in range(120)}
    async with Person(app) as person:
        seen: list[str] = []
        path: str | None = "/jobs"
        while path:
            page = await person.page(path)
            seen += listed(page)
            found = re.search(r'href="([^"]*)" rel="next"', page)
            path = html.unescape(found[1]) if found else None
        assert sorted(seen) == sorted(sent)
        assert "120 jobs examined so far" in page


async def test_a_page_costs_few_calls_however_many_jobs_and_queues_there_are(
    app: Headrace,
) -> None:
    for number in range(40):
        send = task_of(app, f"queue-{number}")
        await app.enqueue_many(send.call(str(each)) for each in range(100))
    store = await counted(app)
    async with Person(app) as person:
        await person.page("/jobs")
        assert store.calls.total() <= 10
        store.calls.clear()
        page = await person.page("/jobs", text="nowhere")
        # Each look at a hundred jobs is two calls, of which a page makes 2,000 / 100; and one more
        # in each queue, whose first few jobs say how large the others may be.
        assert store.calls.total() <= 80
        assert "none found here" in page
        assert "Search on" in page


async def test_those_that_are_ticked_are_cancelled(app: Headrace) -> None:
    send = task_of(app)
    jobs = [await send.enqueue("ann") for _ in range(3)]
    async with Person(app) as person:
        page = await person.page("/jobs")
        boxes = re.findall(r'name="job" value="([^"]*)"', page)
        chosen = [html.unescape(each) for each in boxes[:2]]
        assert "Cancel these 2 jobs?" in await question(person, "cancel", job=chosen)
        assert flash((await post(person, "cancel", job=chosen)).text) == "2 jobs cancelled."
        states = [await job.status() for job in jobs]
        assert states.count(State.CANCELLED) == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "No job is selected"),
        ({"job": "nonsense"}, "does not say which job"),
        ({"job": "[1, 2]"}, "does not say which job"),
    ],
)
async def test_a_form_that_names_no_job_does_nothing(
    app: Headrace, fields: dict[str, str], said: str
) -> None:
    job = await task_of(app).enqueue("ann")
    async with Person(app) as person:
        assert said in (await post(person, "cancel", **fields)).text
    assert await job.status() is State.WAITING


async def test_all_that_match_are_cancelled_after_a_question_that_says_which(
    app: Headrace,
) -> None:
    send = task_of(app)
    await app.enqueue_many(send.call(f"user{number}") for number in range(120))
    kept = await send.options(delay=60).enqueue("user")
    wanted = {"queue": "mail", "state": "waiting", "text": "user", "when": "1h"}
    async with Person(app) as person:
        asked = await question(person, "cancel_all", **wanted)
        assert (
            "Cancel all waiting jobs in queue mail with the text “user” that were sent in the last "
            "hour?"
        ) in asked
        assert (await app.admin.queue("mail")).waiting == 120
        assert flash((await post(person, "cancel_all", **wanted)).text) == "120 jobs cancelled."
        assert await kept.status() is State.SCHEDULED


async def test_nothing_is_done_to_all_without_a_filter(app: Headrace) -> None:
    send = task_of(app)
    await send.enqueue("ann")
    await bury(app, [envelope("send", "bob")])
    async with Person(app) as person:
        for verb in ("cancel_all", "replay_all", "purge_all"):
            assert "Say which jobs:" in flash((await post(person, verb)).text)
    assert (await app.admin.queue("mail")).waiting == 1
    assert (await app.admin.queue("default")).dead == 1


async def test_dead_jobs_are_not_cancelled_but_replayed_or_purged(app: Headrace) -> None:
    await bury(app, [envelope("send", "bob") for _ in range(3)])
    async with Person(app) as person:
        page = await person.page("/jobs", state="dead", queue="default")
        assert "Replay all that match" in page
        assert "Cancel all" not in page
        answer = await post(person, "cancel_all", state="dead", queue="default")
        assert "dead jobs have ended" in flash(answer.text)
        sent = fields_for(page, "replay_all")
        assert sent == {"queue": "default"}
        assert flash((await post(person, "replay_all", **sent)).text) == "3 jobs replayed."


@pytest.mark.parametrize(
    ("verb", "field"),
    [
        ("cancel_all", {"reason": "timeout"}),
        ("replay_all", {"state": "running"}),
        ("purge_all", {"state": "waiting"}),
        ("purge_all", {"error": "no such user"}),
    ],
)
async def test_an_action_that_would_mean_more_jobs_than_the_form_says_is_refused(
    app: Headrace, verb: str, field: dict[str, str]
) -> None:
    await bury(app, [envelope("send", "bob")], queue="mail")
    await task_of(app).enqueue("ann")
    async with Person(app) as person:
        (name,) = field
        assert f"cannot filter by {name}" in await question(person, verb, queue="mail", **field)
        assert "cannot" in flash((await post(person, verb, queue="mail", **field)).text)
    info = await app.admin.queue("mail")
    assert (info.waiting, info.dead) == (1, 1)


async def test_what_a_list_does_not_go_by_is_not_in_its_actions(app: Headrace) -> None:
    await bury(app, [envelope("send", "bob")], queue="mail")
    await task_of(app).enqueue("ann")
    async with Person(app) as person:
        jobs = await person.page("/jobs", queue="mail", reason="timeout")
        dead = await person.page("/dead", queue="mail", state="running")
        assert fields_for(jobs, "cancel_all") == {"queue": "mail"}
        assert fields_for(dead, "purge_all") == {"queue": "mail"}


async def test_names_and_errors_of_jobs_are_shown_as_text(app: Headrace) -> None:
    history = one_attempt(f"{SCRIPT}{BREAKER}{TURNED}{'x' * 100_000}")
    await bury(app, [envelope(f"{SCRIPT}{TURNED}", "bob", id=BREAKER)], history=history)
    async with Person(app) as person:
        page = await person.page("/jobs", state="dead")
        assert_harmless(page)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "invoice\\u202efdp.exe" in page
        found = re.search(r'class="name" href="([^"]*)"', page)
        assert found
        assert_harmless(await person.page(html.unescape(found[1])))
