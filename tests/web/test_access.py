"""Who may come in, and what they may do."""

from __future__ import annotations

import asyncio
import base64

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

import headrace
from headrace import ConfigError, Headrace
from headrace.web.auth.access import Auth
from headrace.web.auth.password_access import PasswordAccess
from headrace.web.auth.users import Passwords, Role, User
from tests.web.browsing import HOME, Person, flash

USERS = Passwords(["ann:s3cret42", "bob:look:only:viewer"])


@pytest.fixture
def store_url() -> str:
    return "memory://"


@pytest.mark.parametrize(
    ("home", "client"),
    [
        (HOME, "127.0.0.1"),
        ("http://localhost:8370", "127.0.0.7"),
        ("http://[::1]:8370", "::1"),
        ("http://shop.localhost", "::ffff:127.0.0.1"),
    ],
)
async def test_without_auth_this_machine_is_served(app: Headrace, home: str, client: str) -> None:
    async with Person(app, home=home, client=client, headers={"origin": home}) as person:
        assert "Overview" in await person.page("/")


@pytest.mark.parametrize(
    ("home", "client", "headers"),
    [
        (HOME, "192.0.2.7", {}),
        (HOME, "testclient", {}),
        ("http://evil.example:8370", "127.0.0.1", {}),
        ("http://127.0.0.1.evil.example", "127.0.0.1", {}),
        (HOME, "127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
        (HOME, "127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
        (HOME, "127.0.0.1", {"X-Forwarded-Proto": "https"}),
        (HOME, "127.0.0.1", {"Via": "1.1 shop"}),
        (HOME, "127.0.0.1", {"CF-Connecting-IP": "127.0.0.1"}),
        (HOME, "127.0.0.1", {"X-Real-IP": "127.0.0.1"}),
        (HOME, "127.0.0.1", {"X-Original-URL": "/"}),
        (HOME, "127.0.0.1", {"X-Envoy-External-Address": "127.0.0.1"}),
        (HOME, "127.0.0.1", {"X-Cluster-Client-IP": "127.0.0.1"}),
        (HOME, "127.0.0.1", {"X-ForwardedFor": "127.0.0.1"}),
        (HOME, "127.0.0.1", {"X-Amzn-Trace-Id": "Root=1"}),
        (HOME, "127.0.0.1", {"CDN-Loop": "shop"}),
        (HOME, "127.0.0.1", {"Proxy-Connection": "keep-alive"}),
        (HOME, "127.0.0.1", {"Origin": "https://localhost.evil.example"}),
        (HOME, "127.0.0.1", {"Origin": "null"}),
    ],
)
async def test_without_auth_others_are_refused(
    app: Headrace, home: str, client: str, headers: dict[str, str]
) -> None:
    async with Person(app, home=home, client=client, headers=headers) as person:
        answer = await person.get("/")
        assert answer.status_code == 403
        assert "--auth name:password" in answer.text
        assert (await person.get("/live", view="/")).status_code == 403
        assert (await person.http.post("/actions/pause", data={"queue": "mail"})).status_code == 403
        assert (await person.get("/healthz")).json() == {"ok": True, "reasons": []}


async def test_insecure_serves_everyone(app: Headrace) -> None:
    async with Person(app, client="192.0.2.7", home="http://shop.example", insecure=True) as person:
        assert "Overview" in await person.page("/")
    with pytest.raises(ConfigError, match="not both"):
        headrace.dashboard(app, auth=USERS, insecure=True)


def known(request: Request) -> User | None:
    name = request.headers.get("x-user")
    return User(name, Role.VIEWER) if name else None


async def known_later(request: Request) -> User | None:
    await asyncio.sleep(0)
    return known(request)


@pytest.mark.parametrize("hook", [known, known_later])
async def test_a_hook_says_who_asks(app: Headrace, hook: Auth) -> None:
    async with Person(app, client="192.0.2.7", auth=hook) as person:
        assert (await person.get("/")).status_code == 403
        answer = await person.http.get("/", headers={"x-user": "carol"})
        assert answer.status_code == 200
        assert "carol" in answer.text


async def test_what_a_hook_raises_is_the_answer(app: Headrace) -> None:
    def refuse(request: Request) -> User:
        raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})

    async with Person(app, auth=refuse) as person:
        for path, status in (("/", 401), ("/live?view=/", 401), ("/nope", 404)):
            assert (await person.get(path)).status_code == status
        assert (await person.get("/")).headers["www-authenticate"] == "Bearer"


async def test_a_person_who_is_not_known_is_taken_to_the_login(app: Headrace) -> None:
    async with Person(app, auth=USERS, client="192.0.2.7") as person:
        answer = await person.get("/queue", name="mail")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?back=%2Fqueue%3Fname%3Dmail"
        assert (await person.http.get("/", headers={"accept": "*/*"})).status_code == 401
        assert (await person.get("/static/style.css")).status_code == 200


async def test_logging_in_and_out(app: Headrace) -> None:
    async with Person(app, auth=USERS) as person:
        entered = await person.log_in("ann", "s3cret42")
        assert entered.status_code == 303
        cookie = next(c for c in entered.headers.get_list("set-cookie") if "session" in c)
        assert {"HttpOnly", "SameSite=strict", "Max-Age=43200"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        assert "ann" in await person.page("/")
        kept = dict(person.http.cookies)
        left = await person.http.post("/logout", data={"csrf_token": await person.token()})
        assert left.headers["location"] == "/login"
        assert (await person.get("/")).status_code == 303
        person.http.cookies.update(kept)
        assert (await person.get("/")).status_code == 303, "the session is over for good"


async def test_cookies_are_only_for_https_where_there_is_https(app: Headrace) -> None:
    async with Person(app, auth=USERS, home="https://shop.example") as person:
        entered = await person.log_in("ann", "s3cret42")
        for cookie in entered.headers.get_list("set-cookie"):
            assert cookie.startswith("__Host-headrace_")
            assert {"Secure", "Path=/"} <= set(cookie.split("; "))


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong"), ("nobody", "s3cret42"), ("bob", "look"), ("", "")]
)
async def test_a_wrong_password_is_refused(app: Headrace, name: str, password: str) -> None:
    async with Person(app, auth=USERS) as person:
        answer = await person.log_in(name, password)
        assert answer.status_code == 401
        assert "Wrong name or password" in answer.text
        assert (await person.get("/")).status_code == 303


async def test_a_login_form_from_elsewhere_is_refused(app: Headrace) -> None:
    async with Person(app, auth=USERS) as person:
        sent = {"name": "ann", "password": "s3cret42"}
        assert (await person.http.post("/login", data=sent)).status_code == 403


async def test_programs_send_a_password_along(app: Headrace) -> None:
    async with Person(app, auth=USERS, headers={"accept": "*/*"}) as person:
        asked = await person.get("/queues")
        assert asked.headers["www-authenticate"].startswith("Basic")
        for _ in range(2):
            assert (await person.http.get("/queues", auth=("ann", "s3cret42"))).status_code == 200
        assert (await person.http.get("/queues", auth=("ann", "wrong"))).status_code == 401
        odd = base64.b64encode(b"\xff\xfe").decode()
        refused = await person.http.get("/", headers={"authorization": f"Basic {odd}"})
        assert refused.status_code == 401


@pytest.mark.parametrize("headers", [{"accept": "text/event-stream"}, {"sec-fetch-mode": "cors"}])
async def test_a_browser_is_not_made_to_ask_for_a_password_by_itself(
    app: Headrace, headers: dict[str, str]
) -> None:
    async with Person(app, auth=USERS, headers={"accept": "*/*", **headers}) as person:
        answer = await person.get("/live", view="/")
        assert answer.status_code == 401
        assert "www-authenticate" not in answer.headers


async def test_a_form_that_comes_after_the_session_leads_to_the_login(app: Headrace) -> None:
    async with Person(app, auth=USERS) as person:
        answer = await person.http.post("/actions/pause", data={"queue": "mail"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        assert flash(await person.page("/login")).startswith("Your session was over")


async def test_a_forged_or_old_session_is_none(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = PasswordAccess(USERS)
    session = access.session(User("ann"))
    assert access.session_user(session) == User("ann")
    body, _, signature = session.rpartition(".")
    other = PasswordAccess(Passwords(["ann:s3cret42"]))
    for forged in (
        body,
        f"{body}.",
        f"{body}x.{signature}",
        other.session(User("ann")),
        ".",
        "é.é",
    ):
        assert access.session_user(forged) is None
    monkeypatch.setattr("headrace.web.auth.password_access.SESSION_SECONDS", -1)
    assert access.session_user(session) is None
    assert access.session_user(access.device(User("ann"))) is None, "signed for another purpose"


def test_processes_with_the_same_secret_know_each_others_sessions() -> None:
    secret = "a long text that nobody knows"
    one, other = (PasswordAccess(Passwords(["ann:s3cret42"], secret=secret)) for _ in range(2))
    assert other.session_user(one.session(User("ann"))) == User("ann")
    changed = PasswordAccess(Passwords(["ann:s3cret43"], secret=secret))
    assert changed.session_user(one.session(User("ann"))) is None


async def test_a_viewer_sees_no_buttons_and_cannot_act(app: Headrace) -> None:
    await app.admin.pause("mail")
    async with Person(app, auth=USERS) as person:
        await person.log_in("bob", "look:only")
        page = await person.page("/queues")
        assert "mail" in page
        assert "/actions/" not in page
        sent = {"csrf_token": await person.token(), "queue": "mail"}
        answer = await person.http.post("/actions/resume", data=sent)
        assert answer.status_code == 403
        assert "needs an operator" in answer.text
    assert (await app.admin.queue("mail")).paused


@pytest.mark.parametrize("users", [[], ["ann"], ["ann:"], [":look:only"], ["ann:s3cret42"] * 2])
def test_users_are_given_with_a_name_and_a_password_each(users: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        Passwords(users)
    assert "s3cret" not in str(raised.value), "a password is not told"


@pytest.mark.parametrize("user", ["ann:s3cret4", "ann:s3cret4:viewer", "ann:viewer", "ann:ö234567"])
def test_a_short_password_is_refused_and_not_told(user: str) -> None:
    with pytest.raises(ConfigError, match="user 'ann' has fewer than 8 characters: ") as raised:
        Passwords(["bob:look:only", user])
    assert "s3cret" not in str(raised.value)


def test_a_password_of_eight_characters_is_taken() -> None:
    assert Passwords(["ann:s3cret42", "bob:öäüßöäüß:viewer"]).named("bob")


def test_a_user_is_a_viewer_or_an_operator() -> None:
    assert User("ann", "viewer").role is Role.VIEWER  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="viewer or operator"):
        User("ann", "admin")  # type: ignore[arg-type]
