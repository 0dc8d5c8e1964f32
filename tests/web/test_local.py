"""Without auth: this machine's user, and nobody else on the machine."""

from __future__ import annotations

import re
import time

import pytest
from itsdangerous import TimestampSigner
from starlette.applications import Starlette
from starlette.routing import Mount

import headrace
from headrace import ConfigError, Headrace, dashboard
from headrace.web.auth.secret import own_host
from headrace.web.auth.users import Passwords
from tests.web.browsing import HOME, TOKEN, Person


@pytest.fixture
def store_url() -> str:
    return "memory://"


def stranger(site: object, home: str = HOME) -> Person:
    """Another account of this machine, or a browser that was never here."""
    person = Person(site, home=home)
    del person.http.headers["authorization"]
    return person


async def test_another_account_of_the_machine_is_not_let_in(app: Headrace) -> None:
    async with stranger(dashboard(app, token=TOKEN)) as person:
        for path in ("/", "/queues", "/raw", "/metrics", "/live?view=/", "/actions", "/?token=x"):
            answer = await person.get(path)
            assert (answer.status_code, answer.headers["location"][:6]) == (303, "/login")
        asked = await person.http.get("/queues", headers={"accept": "*/*"})
        assert (asked.status_code, asked.headers["www-authenticate"]) == (401, "Bearer")
        sent = {"csrf_token": await person.token("/login"), "queue": "mail"}
        assert (await person.http.post("/actions/pause", data=sent)).status_code == 303
        assert not (await app.admin.queue("mail")).paused
        page = await person.page("/login")
        assert "?token=" in page
        assert TOKEN not in page


async def test_the_token_in_the_address_lets_in_once_and_then_a_cookie(app: Headrace) -> None:
    async with stranger(dashboard(app, token=TOKEN)) as person:
        entered = await person.get("/queue", name="mail", token=TOKEN)
        assert entered.status_code == 303
        assert entered.headers["location"] == "/queue?name=mail"
        (cookie,) = [c for c in entered.headers.get_list("set-cookie") if "session" in c]
        assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
        page = await person.page("/queue", name="mail")
        assert TOKEN not in page
        assert "Log out" not in page
        assert (await person.do("pause", queue="mail")).status_code == 303
        again = await person.get("/queues", token=TOKEN)
        assert again.headers["location"] == "/queues", "it does not stay in the address"
        assert (await person.get("/queues", token="wrong")).status_code == 303


DAYS, QUARTER = 30 * 86_400, 15 * 60
OWN = f"http://{own_host(TOKEN)}:8370"


@pytest.mark.parametrize(
    ("home", "seconds"),
    [
        (OWN, DAYS),
        (HOME, QUARTER),
        ("http://localhost:8370", QUARTER),
        ("http://another.localhost:8370", QUARTER),
        # The browser sends it to those alone whose certificate it trusts.
        ("https://127.0.0.1:8370", DAYS),
    ],
)
async def test_a_session_that_other_servers_get_to_see_is_short(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, home: str, seconds: int
) -> None:
    site = dashboard(app, token=TOKEN)
    for typed in (False, True):
        async with stranger(site, home) as person:
            given = await person.log_in("", TOKEN) if typed else await person.get("/", token=TOKEN)
            (cookie,) = [c for c in given.headers.get_list("set-cookie") if "session" in c]
            assert f"Max-Age={seconds}" in cookie.split("; ")
            assert not any(part.startswith("Domain") for part in cookie.split("; "))
            assert "Overview" in await person.page("/")
            # Whoever kept a copy keeps it for longer.
            with monkeypatch.context() as later:
                now = time.time() + seconds
                later.setattr(TimestampSigner, "get_timestamp", lambda _, now=now: int(now) - 60)
                assert (await person.get("/")).status_code == 200
                later.setattr(TimestampSigner, "get_timestamp", lambda _, now=now: int(now) + 60)
                assert (await person.get("/")).headers["location"] == "/login"


async def test_a_session_of_another_name_is_none_under_the_own_name(app: Headrace) -> None:
    site = dashboard(app, token=TOKEN)
    async with stranger(site) as person:
        await person.get("/", token=TOKEN)
        (stolen,) = [text for name, text in person.http.cookies.items() if "session" in name]
    async with stranger(site, OWN) as owner:
        await owner.get("/", token=TOKEN)
        (name,) = [name for name in owner.http.cookies if "session" in name]
    async with stranger(site, OWN) as thief:
        thief.http.cookies.set(name, stolen)
        assert (await thief.get("/")).headers["location"] == "/login"


def test_the_own_name_is_that_of_the_token_and_does_not_show_it() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}\.localhost", own_host(TOKEN))
    assert own_host(TOKEN) == own_host(TOKEN) != own_host(f"{TOKEN}.")


async def test_the_token_can_be_typed(app: Headrace) -> None:
    async with stranger(dashboard(app, token=TOKEN)) as person:
        wrong = await person.log_in("", "a token of nothing")
        assert wrong.status_code == 401
        assert "This is not the token." in wrong.text
        back = (await person.get("/queue", name="mail")).headers["location"]
        assert back == "/login?back=%2Fqueue%3Fname%3Dmail"
        assert (await person.log_in("", f" {TOKEN} ")).status_code == 303
        assert "Overview" in await person.page("/")


async def test_a_server_that_starts_anew_with_the_same_token_knows_its_user(app: Headrace) -> None:
    async with stranger(dashboard(app, token=TOKEN)) as person:
        await person.get("/", token=TOKEN)
        kept = dict(person.http.cookies)
    for token, status in ((TOKEN, 200), ("another token that is long", 303)):
        async with stranger(dashboard(app, token=token)) as later:
            later.http.cookies.update(kept)
            assert (await later.get("/")).status_code == status


async def test_a_token_that_nobody_chose_is_logged_once(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    site = dashboard(app)
    async with stranger(Starlette(routes=[Mount("/jobs", site)])) as person:
        for _ in range(3):
            await person.get("/jobs/")
    (record,) = [record for record in caplog.records if record.name == "headrace.web"]
    token = site.state.dashboard.access.token
    assert f"open {HOME}/jobs/?token={token} " in record.getMessage()


async def test_the_variable_chooses_the_token(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADRACE_DASHBOARD_TOKEN", TOKEN)
    async with stranger(dashboard(app)) as person:
        assert (await person.get("/")).headers["location"] == "/login"
        assert (await person.get("/", token=TOKEN)).headers["location"] == "/"
    assert not caplog.records, "who chose it knows it"


async def test_what_speaks_http_1_0_is_a_proxy(app: Headrace) -> None:
    site = dashboard(app, token=TOKEN)

    async def spoken(scope: dict[str, object], receive: object, send: object) -> None:
        await site({**scope, "http_version": "1.0"}, receive, send)  # type: ignore[arg-type]

    async with Person(spoken) as person:
        answer = await person.get("/")
        assert answer.status_code == 403
        assert "HTTP/1.0" in answer.text
        assert (await person.get("/login")).status_code == 403
        assert (await person.get("/", token=TOKEN)).status_code == 403
        assert (await person.get("/healthz")).status_code == 200


async def test_headers_that_browsers_send_are_no_proxys(app: Headrace) -> None:
    usual = {
        "user-agent": "Mozilla/5.0", "accept-language": "en", "dnt": "1", "sec-gpc": "1",
        "priority": "u=0, i", "te": "trailers", "upgrade-insecure-requests": "1",
        "sec-ch-ua-platform": "Linux", "sec-fetch-site": "none", "cache-control": "max-age=0",
        "if-none-match": "x", "range": "bytes=0-", "x-requested-with": "XMLHttpRequest",
        "traceparent": "00-1-1-00", "save-data": "on", "pragma": "no-cache",
    }  # fmt: skip
    async with Person(app, headers=usual) as person:
        assert "Overview" in await person.page("/")


def test_what_makes_no_sense_is_refused(app: Headrace) -> None:
    users = Passwords(["ann:s3cret42"])
    with pytest.raises(ConfigError, match="16 characters"):
        dashboard(app, token="short")
    with pytest.raises(ConfigError, match="leave it out"):
        dashboard(app, token=TOKEN, auth=users)
    with pytest.raises(ConfigError, match="leave it out"):
        dashboard(app, token=TOKEN, insecure=True)
    with pytest.raises(ConfigError, match="give secret to Passwords"):
        dashboard(app, auth=users, secret="long enough to be one")
    with pytest.raises(ConfigError, match="share a token"):
        headrace.dashboard(app, secret="long enough to be one")
