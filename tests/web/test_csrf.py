"""Forms that other sites have a browser send."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from headrace import ConfigError, Headrace, dashboard
from headrace.web.auth.users import Passwords, User
from tests.web.browsing import BARE, Person, flash

SHOP = "http://ops.shop.example"


@pytest.fixture
def store_url() -> str:
    return "memory://"


def proxied(request: Request) -> User | None:
    """As behind a proxy that logs people in: the browser does nothing for it."""
    return User("ann")


async def pause(person: Person, headers: Mapping[str, str | None]) -> httpx.Response:
    """A form that is right but for where it comes from; None leaves a header out."""
    sent = {"csrf_token": await person.token("/queue?name=mail"), "queue": "mail"}
    request = person.http.build_request("POST", "/actions/pause", data=sent)
    home = person.http.base_url
    request.headers["origin"] = f"{home.scheme}://{home.netloc.decode()}"
    request.headers[BARE] = "yes"
    for name, value in headers.items():
        if value is None:
            request.headers.pop(name, None)
        else:
            request.headers[name] = value
    return await person.http.send(request)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://shop.example"},
        {"origin": "http://evil.shop.example"},
        {"origin": "http://ops.shop.example.evil.example"},
        {"origin": "http://ops.shop.example:8080"},
        {"origin": "http://ops.shop.example@evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "ops.shop.example"},
        {"origin": "file://"},
        {"origin": "http://[::1"},
        {"origin": "http://ops.shop.example:x"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        {"origin": "http://evil.example", "referer": f"{SHOP}/queues"},
        {"origin": None, "referer": "http://evil.example/http://ops.shop.example/"},
        {"origin": None, "referer": "/queues"},
        {"origin": None},
    ],
)
@pytest.mark.parametrize("auth", [proxied, Passwords(["ann:s3cret42"])])
async def test_a_form_of_another_origin_is_refused(
    app: Headrace, auth: object, headers: dict[str, str | None]
) -> None:
    async with Person(app, home=SHOP, client="192.0.2.7", auth=auth) as person:
        person.http.auth = httpx.BasicAuth("ann", "s3cret42")
        answer = await pause(person, headers)
        assert answer.status_code == 403
        said = "came from another site" if headers != {"origin": None} else "where it comes from"
        assert said in answer.text
        assert not (await app.admin.queue("mail")).paused


@pytest.mark.parametrize(
    ("home", "headers"),
    [
        (SHOP, {}),
        (SHOP, {"sec-fetch-site": "same-origin"}),
        (SHOP, {"origin": None, "referer": f"{SHOP}/queues?x=1"}),
        (SHOP, {"origin": None, "sec-fetch-site": "same-origin"}),
        (SHOP, {"origin": "HTTP://OPS.Shop.Example:80"}),
        # A proxy that ends TLS, and passes on by which name it was asked.
        (SHOP, {"origin": "https://ops.shop.example"}),
        ("http://10.0.0.5:8370", {"origin": SHOP, "x-forwarded-host": "ops.shop.example"}),
        ("http://10.0.0.5:8370", {"origin": SHOP, "forwarded": 'for=1;host="ops.shop.example"'}),
        ("http://10.0.0.5:8370", {"origin": "https://jobs.shop.example"}),
        ("https://ops.shop.example:8443", {}),
        ("http://[2001:db8::1]:8370", {}),
    ],
)
async def test_a_form_of_our_own_origin_is_done(
    app: Headrace, home: str, headers: dict[str, str | None]
) -> None:
    known = ["https://jobs.shop.example"]
    async with Person(app, home=home, auth=proxied, origins=known) as person:
        assert (await pause(person, headers)).status_code == 303
        assert (await app.admin.queue("mail")).paused


async def test_what_was_sent_by_https_is_not_ours_if_it_comes_by_http(app: Headrace) -> None:
    home = "https://ops.shop.example"
    async with Person(app, home=home, auth=proxied) as person:
        assert (await pause(person, {"origin": SHOP})).status_code == 403


async def test_the_origin_is_that_of_the_host_wherever_it_is_mounted(app: Headrace) -> None:
    mounted = Starlette(routes=[Mount("/ops/jobs", dashboard(app, auth=proxied))])
    async with Person(mounted, home=f"{SHOP}/ops/jobs") as person:
        assert (await pause(person, {"origin": "http://evil.example"})).status_code == 403
        assert (await pause(person, {})).headers["location"] == "/ops/jobs/"


async def test_a_sibling_that_plants_cookies_cannot_compute_the_token(app: Headrace) -> None:
    site = dashboard(app, auth=proxied)
    async with Person(site, home=SHOP) as person:
        await person.page("/")
        (cookie,) = person.http.cookies
        planted = "x" * 32
        person.http.cookies.clear()
        person.http.cookies.set(cookie, planted)
        guess = hmac.new(planted.encode(), b"ann\n", hashlib.sha256).hexdigest()
        answer = await person.http.post(
            "/actions/pause", data={"queue": "mail", "csrf_token": guess}
        )
        assert answer.status_code == 403
        assert not (await app.admin.queue("mail")).paused


async def test_a_token_holds_in_all_processes_with_the_same_secret(app: Headrace) -> None:
    one, other = (
        dashboard(app, auth=proxied, secret="a text that is long enough") for _ in range(2)
    )
    alone = dashboard(app, auth=proxied)
    async with Person(one, home=SHOP) as person:
        token = await person.token("/queue?name=mail")
        for site, status in ((other, 303), (alone, 403)):
            async with Person(site, home=SHOP) as later:
                later.http.cookies.update(person.http.cookies)
                sent = {"queue": "mail", "csrf_token": token}
                answer = await later.http.post("/actions/pause", data=sent)
                assert answer.status_code == status
        assert "the same secret" in answer.text


async def test_a_login_form_of_another_origin_is_refused(app: Headrace) -> None:
    async with Person(app, home=SHOP, auth=Passwords(["ann:s3cret42"])) as person:
        sent = {"csrf_token": await person.token("/login"), "name": "ann", "password": "s3cret42"}
        elsewhere = {"origin": "http://evil.shop.example"}
        assert (await person.http.post("/login", data=sent, headers=elsewhere)).status_code == 403
        assert (await person.log_in("ann", "s3cret42")).status_code == 303
        token = {"csrf_token": await person.token("/")}
        assert (await person.http.post("/logout", data=token, headers=elsewhere)).status_code == 403
        assert flash(await person.page("/")) == ""


@pytest.mark.parametrize(
    "origins", ["https://shop.example", ["shop.example"], ["https://shop.example/jobs"], [5]]
)
def test_origins_are_addresses_without_a_path(app: Headrace, origins: object) -> None:
    with pytest.raises(ConfigError, match=r"https://shop\.example"):
        dashboard(app, auth=proxied, origins=origins)  # type: ignore[arg-type]


@pytest.mark.parametrize("secret", ["short", 5])
def test_a_secret_is_long(app: Headrace, secret: object) -> None:
    with pytest.raises(ConfigError, match="16 characters"):
        dashboard(app, auth=proxied, secret=secret)  # type: ignore[arg-type]


async def test_a_sibling_that_plants_cookies_puts_no_words_into_our_mouth(app: Headrace) -> None:
    async with Person(app, home=SHOP, auth=proxied) as person:
        await person.do("pause", queue="mail")
        (cookie,) = (name for name in person.http.cookies if "flash" in name)
        right = person.http.cookies[cookie]
        said = json.dumps(["Call 555-1234 for help.", "bad"]).encode()
        planted = base64.urlsafe_b64encode(said).decode()
        for forged in (planted, f"{planted}.{right.partition('.')[2]}"):
            person.http.cookies.clear()
            person.http.cookies.set(cookie, forged)
            assert not flash(await person.page("/queues"))
        person.http.cookies.clear()
        person.http.cookies.set(cookie, right)
        assert flash(await person.page("/queues")).startswith("Paused queue mail")
