"""What other sites, odd input and errors cannot do."""

from __future__ import annotations

import asyncio

import httpx2 as httpx
import pytest

from headrace import Headrace, dashboard
from headrace.admin import Admin
from headrace.web.actions.form_actions import own_path
from headrace.web.page import HtmlPage
from headrace.web.rendering.formatting import visible
from headrace.web.routes import VIEWS
from headrace.web.visit import Visit
from tests.web.browsing import HOME, Person, flash


@pytest.fixture
def store_url() -> str:
    return "memory://"


@pytest.mark.parametrize("path", ["/", "/queues", "/nope", "/static/style.css", "/healthz"])
async def test_every_answer_says_what_browsers_may_do_with_it(app: Headrace, path: str) -> None:
    async with Person(app) as person:
        headers = (await person.get(path)).headers
        policy = headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert {"script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(policy)
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        kept = "no-cache" if path.startswith("/static") else "no-store"
        assert headers["cache-control"] == kept


async def test_pages_hold_nothing_that_the_policy_forbids(app: Headrace) -> None:
    async with Person(app) as person:
        for path in ("/", "/queues", "/queue?name=mail", "/schedules", "/workers", "/actions"):
            page = await person.page(path)
            assert "<style" not in page
            assert " style=" not in page
            assert "onclick" not in page
            assert page.count("<script") == page.count("<script src=")
            assert "http://" not in page
            assert "https://" not in page


async def test_a_form_without_its_token_is_refused(app: Headrace) -> None:
    async with Person(app) as person, Person(person.site) as other:
        stolen = await other.token("/queue?name=mail")
        await app.admin.pause("mail")
        for sent in (
            {},
            {"csrf_token": ""},
            {"csrf_token": "0" * 64},
            {"csrf_token": stolen},
            {"csrf_token": "é"},
        ):
            answer = await person.http.post("/actions/resume", data={"queue": "mail", **sent})
            assert answer.status_code == 403
            await person.page("/queues")
        assert (await app.admin.queue("mail")).paused


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
async def test_a_form_of_another_site_is_refused(app: Headrace, site: str) -> None:
    await app.admin.pause("mail")
    async with Person(app) as person:
        refused = await person.do("resume", queue="mail", headers={"Sec-Fetch-Site": site})
        assert refused.status_code == 403
        done = await person.do("resume", queue="mail", headers={"Sec-Fetch-Site": "same-origin"})
        assert done.status_code == 303
    assert not (await app.admin.queue("mail")).paused


async def test_actions_are_only_posted_as_forms(app: Headrace) -> None:
    async with Person(app) as person:
        assert (await person.get("/actions/pause", queue="mail")).status_code == 405
        token = await person.token("/queue?name=mail")
        sent = await person.http.post("/actions/pause", json={"queue": "mail", "csrf_token": token})
        assert sent.status_code == 400
        assert (await person.do("nothing")).status_code == 404


@pytest.mark.parametrize(
    "back",
    ["//evil.example", "https://evil.example/", "/\\evil.example", "\\\\evil.example", "evil",
     "javascript:alert(1)", "/\t/evil.example", "///evil.example", "//[", ""],
)  # fmt: skip
async def test_nobody_is_sent_elsewhere(app: Headrace, back: str) -> None:
    assert own_path(back) == "/"
    async with Person(app) as person:
        answer = await person.do("pause", back=back, queue="mail")
        assert answer.headers["location"] == "/"


async def test_names_are_shown_as_text(app: Headrace) -> None:
    name = "<script>alert(1)</script>'\"&amp;"
    await app.admin.pause(name)
    async with Person(app) as person:
        page = await person.page("/queues")
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&#39;&#34;&amp;amp;" in page
        assert "<script>alert" not in await person.page("/queue", name=name)
        assert "<script>alert" not in (await person.get("/queue", name=name + "\x07")).text
        answer = await person.do("resume", queue=name)
        assert answer.status_code == 303
    assert not (await app.admin.queue(name)).paused


async def test_what_cannot_be_seen_is_written_out() -> None:
    assert visible("a\u202eb\x00c\u2028d\ud800") == "a\\u202eb\\x00c\\u2028d\\ud800"
    assert visible("\u3164\u2800 \U000e0041") == r"\u3164\u2800 \U000e0041"
    wide = "1\N{NO-BREAK SPACE}000\N{IDEOGRAPHIC SPACE}\N{WOMAN}\u200d\N{PERSONAL COMPUTER}"
    assert visible(wide) == wide
    assert (
        visible("two\nlines\r\nand\ta tab, \N{FAMILY}, \u05d0")
        == "two\nlines\nand\ta tab, \N{FAMILY}, \u05d0"
    )


async def test_what_is_not_there_or_makes_no_sense_is_reported(app: Headrace) -> None:
    async with Person(app) as person:
        for path, status, sentence in (
            ("/nope", 404, "There is no such page."),
            ("/queue", 400, "Say which name"),
            ("/queue?name=@orders", 400, "log"),
            ("/queue?name=billing@orders", 404, "orders"),
            ("/?span=2h", 400, "There is no span"),
            ("/live?view=/nope", 404, "no such page"),
            ("/live?view=//[", 404, "no such page"),
        ):
            answer = await person.get(path)
            assert answer.status_code == status, path
            assert sentence in answer.text
            assert "To the overview" in answer.text
            assert "Parts of the dashboard" in answer.text, "the person is known"


async def test_a_bug_is_reported_without_its_details(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(visit: Visit) -> HtmlPage:
        raise KeyError("a secret")

    monkeypatch.setitem(VIEWS, "/workers", broken)
    site = dashboard(app, insecure=True)
    transport = httpx.ASGITransport(site, raise_app_exceptions=False, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
        answer = await client.get("/workers")
        assert answer.status_code == 500
        assert "see its log" in answer.text
        assert "secret" not in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"


async def test_a_store_that_is_away_is_reported() -> None:
    app = Headrace("redis://127.0.0.1:1/0")
    async with Person(app) as person:
        answer = await person.get("/")
        assert answer.status_code == 503
        assert "127.0.0.1:1" in answer.text
        ready = await person.get("/readyz")
        told_to_all = {"ok": False, "reasons": ["the store does not answer"]}
        assert (ready.status_code, ready.json()) == (503, told_to_all)
        assert (await person.get("/healthz")).status_code == 200


async def test_probes_of_everyone_come_to_one_question_of_bounded_length(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.exposition.health._TIMEOUT", 0.05)
    asked = 0

    async def hangs(_: Admin) -> None:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()

    async with Person(app, client="192.0.2.7") as person:
        assert (await person.get("/readyz")).json() == {"ok": True, "reasons": []}
        monkeypatch.setattr("headrace.admin.Admin.supervisors", hangs)
        assert (await person.get("/readyz")).status_code == 200, "known from a moment ago"
        monkeypatch.setattr("headrace.exposition.health._MAX_AGE", 0.0)
        answers = await asyncio.gather(*(person.get("/readyz") for _ in range(20)))
        assert ({answer.status_code for answer in answers}, asked) == ({503}, 1)


async def test_an_action_that_fails_says_why(app: Headrace) -> None:
    async with Person(app) as person:
        await person.do("run_schedule", back="/schedules", name="none")
        assert flash(await person.page("/schedules")).startswith("Not done: there is no schedule")
        assert not flash(await person.page("/schedules")), "a flash message is shown once"


async def test_a_form_that_is_too_large_is_refused(app: Headrace) -> None:
    async with Person(app) as person:
        answer = await person.http.post(
            "/actions/pause",
            content=b"queue=" + b"x" * 17 * 1024 * 1024,
            headers={"content-type": "application/x-www-form-urlencoded"},
        )
        assert answer.status_code == 413
        odd = await person.http.post(
            "/actions/pause",
            content=b"queue=%ff",
            headers={"content-type": "application/x-www-form-urlencoded"},
        )
        assert odd.status_code == 400
