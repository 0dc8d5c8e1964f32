"""Dead jobs: the list, and editing one before it is sent again."""

from __future__ import annotations

import html
import json
import re
from functools import partial
from typing import Any

import httpx2 as httpx
import msgspec
import pytest

from headrace import Headrace, JobFailed, Reject, Retry, State, chain
from headrace.benchmark.asgi_client import counted
from headrace.core.job.constraints import Constraints
from headrace.web.auth.users import Role, User
from tests.admin.burying import bury, envelope, one_attempt
from tests.browser.shop import has_dead, until
from tests.web.acting import listed, post, question
from tests.web.browsing import Person, flash
from tests.web.hostile import BREAKER, SCRIPT, TURNED, assert_harmless


@pytest.fixture
def store_url() -> str:
    return "memory://"


@pytest.fixture
def mailing(app: Headrace) -> Headrace:
    @app.task
    async def send(to: str, cents: int = 0, *, options: dict[str, Any] | None = None) -> None: ...

    return app


NEWER = msgspec.msgpack.encode([99, b"=newer-1", {"new": "shape"}])


def typed(page: str) -> dict[str, str]:
    """What is in the fields of a form, by name."""
    found = re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>\n?(.*?)</textarea>', page, re.S)
    return {html.unescape(name): html.unescape(text) for name, text in found}


async def edited(person: Person, id: str, **arguments: str) -> httpx.Response:
    """The form of a dead job with other values in some of its fields, sent."""
    fields = typed(await person.page("/dead_job", id=id))
    fields |= {f"argument:{name}": text for name, text in arguments.items()}
    return await post(person, "edit_replay", id=id, queue="default", **fields)


async def test_dead_jobs_are_listed_and_filtered(app: Headrace) -> None:
    (first,) = await bury(app, [envelope("send", "ann")], reason="rejected")
    history = one_attempt("no such host")
    (second,) = await bury(app, [envelope("load", "bob")], queue="files", history=history)
    async with Person(app) as person:
        page = await person.page("/dead")
        assert set(listed(page)) == {first, second}
        assert "ValueError: no such host" in page
        assert listed(await person.page("/dead", queue="files")) == [second]
        assert listed(await person.page("/dead", task="send")) == [first]
        assert listed(await person.page("/dead", reason="expired")) == []
        assert listed(await person.page("/dead", text="HOST")) == [second]
        assert listed(await person.page("/dead", when="1h", text="ann")) == [first]
        assert "is not a cursor" in await person.page("/dead", cursor="x")


async def test_thousands_of_dead_jobs_are_paged_with_few_calls(app: Headrace) -> None:
    ids = set(await bury(app, [envelope("send", number) for number in range(1_300)]))
    store = await counted(app)
    async with Person(app) as person:
        page = await person.page("/dead")
        assert len(listed(page)) == 50
        assert store.calls.total() <= 10
        following = re.search(r'href="([^"]*)" rel="next"', page)
        assert following
        second = listed(await person.page(html.unescape(following[1])))
        assert set(second) < ids - set(listed(page))
        store.calls.clear()
        page = await person.page("/dead", text="nowhere")
        assert store.calls.total() <= 30
        assert "1,000 dead jobs examined so far, none found here" in page


async def test_those_that_are_ticked_are_replayed_or_purged(app: Headrace) -> None:
    ids = await bury(app, [envelope("send", number) for number in range(4)])
    async with Person(app) as person:
        boxes = re.findall(r'name="job" value="([^"]*)"', await person.page("/dead"))
        chosen = [html.unescape(each) for each in boxes]
        answer = await post(person, "replay", job=chosen[:2])
        assert flash(answer.text) == "2 jobs replayed."
        answer = await post(person, "replay", job=chosen[:2])
        assert flash(answer.text) == "None of them is dead any more."
        assert flash((await post(person, "purge", job=chosen[2:])).text) == "2 jobs purged."
    info = await app.admin.queue("default")
    assert (info.waiting, info.dead) == (2, 0)
    assert len(ids) == 4


async def test_all_that_match_are_replayed_or_purged_after_a_question(app: Headrace) -> None:
    await bury(app, [envelope("send", number) for number in range(120)])
    await bury(app, [envelope("load", number) for number in range(3)], reason="expired")
    wanted = {"task": "send", "reason": "rejected", "from": "2020-01-01T00:00"}
    async with Person(app) as person:
        asked = await question(person, "purge_all", **wanted)
        assert (
            "Purge all dead jobs of task send in all queues and groups with the reason rejected "
            "that died since 2020-01-01 00:00:00 UTC for good?"
        ) in asked
        assert flash((await post(person, "replay_all", **wanted)).text) == "120 jobs replayed."
        answer = await post(person, "purge_all", task="load")
        assert flash(answer.text) == "3 jobs purged."


async def test_a_job_is_edited_and_sent_again(mailing: Headrace) -> None:
    (id,) = await bury(mailing, [envelope("send", "ann", 5)])
    async with Person(mailing) as person:
        answer = await edited(person, id, to='"bob"', options='{"n": [1]}')
        assert flash(answer.text) == "Replayed with changed to and options."
    job = await mailing.admin.job(id)
    assert (job.state, job.arguments) == (
        State.WAITING,
        {"to": "bob", "cents": 5, "options": {"n": [1]}},
    )


async def test_an_edit_of_what_makes_a_job_unique_is_refused_with_what_to_do(
    app: Headrace,
) -> None:
    @app.task(unique=lambda to: to)
    async def post_to(to: str) -> None: ...

    named = Constraints(unique=f"{post_to.name}:ann")
    (id,) = await bury(app, [envelope(post_to.name, "ann")], constraints=named)
    async with Person(app) as person:
        answer = await edited(person, id, to='"bob"')
        assert answer.status_code == 422
        assert (
            f"Nothing was replayed: job {id} cannot be edited: unique= of task '{post_to.name}' is "
            "made of its arguments, and differs with the new 'to'; enqueue a new job, and purge "
            "this one"
        ) in html.unescape(answer.text)
    assert await app.job(id).status() is State.DEAD


async def test_a_dead_job_of_a_newer_version_is_named_as_such(app: Headrace) -> None:
    (id,) = await bury(app, [NEWER], reason="newer_format")
    async with Person(app) as person:
        lists = [await person.page("/"), await person.page("/dead")]
        for page in (*lists, await person.page("/dead", by="error")):
            assert "(sent by a newer version)" in page
            assert "unreadable" not in page
        page = html.unescape(await person.page("/job", id=id))
        assert "<h1>A job of a newer version</h1>" in page
        assert "a worker of that version runs it once it is replayed." in page
        assert "a newer version of Headrace sent it" in await person.page("/dead_job", id=id)
        assert await app.admin.replay(id) == 1
        assert "(sent by a newer version)" in await person.page("/jobs")


async def test_what_is_redacted_is_not_edited_unless_a_new_value_is_typed(
    mailing: Headrace,
) -> None:
    def redact(task: str, value: Any) -> Any:
        value["options"]["password"] = "***"
        return {**value, "to": "***"}

    given = (f"secret{TURNED}", 5, {"name": "bob", "password": "p"})
    first, second = await bury(mailing, [envelope("send", *given), envelope("send", *given)])
    async with Person(mailing, redact=redact) as person:
        page = await person.page("/dead_job", id=first)
        assert typed(page) == {"argument:to": "", "argument:cents": "5", "argument:options": ""}
        assert page.count("Hidden, or hidden in part") == 2
        answer = await edited(person, first, cents="6")
        assert flash(answer.text) == "Replayed with changed cents."
        await edited(person, second, options='{"name": "ann"}')
    kept = {"to": given[0], "cents": 5, "options": given[2]}
    assert (await mailing.admin.job(first)).arguments == {**kept, "cents": 6}
    assert (await mailing.admin.job(second)).arguments == {**kept, "options": {"name": "ann"}}


async def test_a_form_that_is_sent_twice_says_that_the_job_is_not_dead_any_more(
    mailing: Headrace,
) -> None:
    (id,) = await bury(mailing, [envelope("send", "ann", 5)])
    async with Person(mailing) as person:
        await edited(person, id, cents="6")
        again = await post(person, "edit_replay", id=id, queue="default")
        assert flash(again.text) == f"Job {id} is not dead any more: it is waiting."
        page = await person.get("/dead_job", id=id)
        assert (page.status_code, "is not dead any more" in page.text) == (404, True)


async def test_fields_are_safe_and_come_back_as_they_are(mailing: Headrace) -> None:
    value = f"{SCRIPT}{BREAKER}{TURNED}\n\x00 </textarea>"
    (id,) = await bury(mailing, [envelope("send", value, 5)])
    async with Person(mailing) as person:
        page = await person.page("/dead_job", id=id)
        assert_harmless(page)
        assert json.loads(typed(page)["argument:to"]) == value
        answer = await edited(person, id, to=typed(page)["argument:to"].replace("x", "y"))
        assert "Replayed" in flash(answer.text)
    assert (await mailing.admin.job(id)).arguments == {
        "to": value.replace("x", "y"),
        "cents": 5,
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"to": "bob"}, "This is not JSON"),
        ({"cents": "NaN"}, "This is not JSON"),
        ({"cents": '"many"'}, "Nothing was replayed: task"),
        ({"to": "[" * 100_000}, "This is not JSON"),
    ],
)
async def test_what_does_not_fit_is_said_beside_the_form_which_keeps_what_was_typed(
    mailing: Headrace, arguments: dict[str, str], sentence: str
) -> None:
    (id,) = await bury(mailing, [envelope("send", "ann", 5)])
    async with Person(mailing) as person:
        answer = await edited(person, id, **arguments)
        assert answer.status_code == 422
        assert sentence in answer.text
        kept = typed(answer.text)
        assert {name: kept[f"argument:{name}"] for name in arguments} == arguments
        answer = await edited(person, id, to='"bob"', cents="7")
        assert "Replayed" in flash(answer.text)


async def test_what_has_no_form_in_json_is_kept_unless_a_new_value_is_typed(
    mailing: Headrace,
) -> None:
    (id,) = await bury(mailing, [envelope("send", "ann", 5, {"file": b"\x00", "n": {1: 2}})])
    async with Person(mailing) as person:
        page = await person.page("/dead_job", id=id)
        assert typed(page)["argument:options"] == ""
        assert "cannot be written as JSON" in page
        assert "Replayed" in flash((await edited(person, id, cents="6")).text)
    arguments = (await mailing.admin.job(id)).arguments
    assert arguments == {"to": "ann", "cents": 6, "options": {"file": b"\x00", "n": {1: 2}}}


async def test_a_job_of_an_unknown_task_can_be_replayed_but_not_edited(app: Headrace) -> None:
    (id,) = await bury(app, [envelope("gone", 1)])
    async with Person(app) as person:
        page = await person.page("/dead_job", id=id)
        assert "this app has no such task" in page
        assert "<textarea" not in page
        answer = await post(person, "replay", id=id)
        assert flash(answer.text) == "1 job replayed."
        assert (await person.get("/dead_job", id=id)).status_code == 404


async def test_a_viewer_sees_no_button_and_no_form(mailing: Headrace) -> None:
    (id,) = await bury(mailing, [envelope("send", "ann")])
    viewer = User("vera", Role.VIEWER)
    async with Person(mailing, auth=lambda request: viewer) as person:
        for path in ("/jobs?state=dead", "/dead?task=send", f"/job?id={id}", f"/dead_job?id={id}"):
            page = await person.page(path)
            assert 'method="post"' not in page
            assert 'type="checkbox"' not in page


async def test_what_a_job_does_not_get_from_others_can_be_edited(app: Headrace) -> None:
    @app.task
    async def give() -> int:
        return 1

    @app.task
    async def add(number: int, plus: int) -> int:
        if plus < 0:
            raise Reject("too small")
        return number + plus

    @app.task
    async def after(number: int) -> int:
        return number

    flow = await app.enqueue(chain(give.call(), add.call(plus=-1), after.call()))
    async with app.worker(), Person(app) as person:
        with pytest.raises(JobFailed):
            await flow.result(timeout=20)
        failed, behind = flow.jobs[1].id, flow.id
        page = (await person.get("/dead_job", id=failed, queue="default")).text
        assert typed(page) == {"argument:plus": "-1"}
        page = (await person.get("/dead_job", id=behind, queue="default")).text
        assert "It never began, because a job that it waited for failed" in page
        assert "Edit and replay" not in (await person.get("/job", id=behind, queue="default")).text
        await edited(person, failed, plus="4")
        assert await flow.result(timeout=20) == 5


async def test_a_job_that_died_with_another_names_it_and_shows_no_empty_arguments(
    app: Headrace,
) -> None:
    @app.task(retry=Retry(1))
    async def load() -> int:
        raise ConnectionError("the bank is away")

    @app.task(queue="sums")
    async def add(number: int) -> int:
        return number

    last = await app.enqueue(chain(load.call(), add.call()))
    async with app.worker(), Person(app) as person:
        await until(partial(has_dead, app, "sums", 1))
        (loaded,) = await app.admin.dead("default")
        pages = [await person.page("/dead"), await person.page("/jobs", state="dead")]
        pages.append(await person.page("/dead_job", id=last.id))
        assert all(f"it waited for job {loaded.id}, which failed" in page for page in pages)
        assert all("{}" not in page for page in pages)
        assert "{}" not in await person.page("/job", id=last.id)
