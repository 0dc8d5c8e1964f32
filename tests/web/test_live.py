"""Pages that stay up to date."""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from headrace import Headrace, dashboard
from headrace.benchmark.asgi_client import listening
from headrace.web import streams, updates
from headrace.web.auth.users import Passwords, Role, User
from headrace.web.page import HtmlPage
from headrace.web.routes import VIEWS
from headrace.web.streams import TOKEN_PLACEHOLDER, rest
from headrace.web.visit import Visit
from tests.web.browsing import Person


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Render a hundred times as often."""

    async def brief(end: asyncio.Event, seconds: float) -> None:
        await rest(end, seconds / 100)

    monkeypatch.setattr("headrace.web.streams.rest", brief)


def following(site: Any, view: str) -> AbstractAsyncContextManager[asyncio.Queue[str]]:
    """The messages of a stream, as they come; empty at its end."""
    return listening(site, f"/live?{urlencode({'view': view})}")


async def heard_of(heard: asyncio.Queue[str], text: str) -> str:
    """The first message that tells of it."""
    async with asyncio.timeout(30):
        while text not in (message := await heard.get()):
            pass
    return message


async def test_a_change_is_sent_as_it_is_seen(app: Headrace) -> None:
    async with following(dashboard(app, insecure=True), "/queues") as heard:
        first = await heard_of(heard, "event: page")
        assert "<html" not in first
        await app.admin.pause("mail")
        message = await heard_of(heard, "Resume queue mail")
        lines = message.removesuffix("\n\n").split("\n")
        assert lines[0] == "event: page"
        assert all(line.startswith("data: ") for line in lines[1:])


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_stream_ends_when_the_server_does(app: Headrace) -> None:
    site = dashboard(app, insecure=True)
    async with following(site, "/actions") as heard:
        await heard_of(heard, "event: page")
        site.state.dashboard.streams.close()
        async with asyncio.timeout(10):
            assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_stream_ends_when_the_app_is_closed_and_does_not_open_it_again(
    app: Headrace,
) -> None:
    async with following(dashboard(app, insecure=True), "/actions") as heard:
        await heard_of(heard, "event: page")
        session = await app.session()
        await app.close()
        assert session.closed
        async with asyncio.timeout(10):
            assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_stream_ends_when_its_session_does(app: Headrace) -> None:
    async with Person(app, auth=Passwords(["ann:s3cret42"])) as person:
        await person.log_in("ann", "s3cret42")
        cookies = "; ".join(f"{name}={value}" for name, value in person.http.cookies.items())

        async def known(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"host", b"127.0.0.1:8370"), (b"cookie", cookies.encode())]
            await person.site({**scope, "headers": headers}, receive, send)

        async with following(known, "/actions") as heard:
            await heard_of(heard, "event: page")
            await person.http.post("/logout", data={"csrf_token": await person.token()})
            async with asyncio.timeout(10):
                assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_what_does_not_change_is_not_sent_again(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.updates.HEARTBEAT", 0.0)
    async with following(dashboard(app, insecure=True), "/workers") as heard:
        await heard_of(heard, "event: page")
        async with asyncio.timeout(30):
            assert await heard.get() == ": still here\n\n"


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_trouble_is_reported_and_the_stream_goes_on(app: Headrace) -> None:
    async with following(dashboard(app, insecure=True), "/queue?name=billing@orders") as heard:
        assert "There is no topic" in await heard_of(heard, "event: trouble")
        orders = app.topic("orders", str)

        @orders.subscribe("billing")
        async def bill(order: str) -> None: ...

        await orders.publish("o-1")
        await heard_of(heard, "event: page")


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.parametrize(
    ("kind", "field", "shown"),
    [("page", "text", "mail&#13;&#13;event"), ("trouble", "when", "mail\\x0d\\x0devent")],
)
async def test_what_someone_asks_for_begins_no_line_of_the_stream(
    app: Headrace, kind: str, field: str, shown: str
) -> None:
    asked = urlencode({field: "mail\r\revent: forged\rdata: forged"})
    async with following(dashboard(app, insecure=True), f"/jobs?{asked}") as heard:
        message = await heard_of(heard, f"event: {kind}")
        assert shown in message
        assert "\r" not in message


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_page_that_is_complete_ends_the_stream(app: Headrace) -> None:
    async with following(dashboard(app, insecure=True), "/action?id=none") as heard:
        assert "This action is not known here" in await heard_of(heard, "event: last")
        assert await heard.get() == ""


def seen_by(site: Any, name: str) -> Any:
    """The site as someone sees it who was there before."""

    async def called(scope: Any, receive: Any, send: Any) -> None:
        headers = [*scope["headers"], (b"x-user", name.encode())]
        await site({**scope, "headers": headers}, receive, send)

    return called


def who(request: Request) -> User:
    name = request.headers["x-user"]
    return User(name, Role.VIEWER if name == "bob" else Role.OPERATOR)


def token_in(message: str) -> str:
    found = re.search(r'name="csrf_token" value="(\w+)"', message)
    return found[1] if found else ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_who_sees_the_same_shares_one_rendering_with_a_token_each(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    queues = VIEWS["/queues"]

    async def looked(visit: Visit) -> HtmlPage:
        nonlocal looks
        looks += 1
        return replace(await queues(visit), live=3600.0)

    monkeypatch.setitem(VIEWS, "/queues", looked)
    monkeypatch.setattr("headrace.web.streams._SOON", 0.0)
    await app.admin.pause("mail")
    site = dashboard(app, auth=who)
    async with AsyncExitStack() as stack:
        heard = [
            await stack.enter_async_context(following(seen_by(site, name), "/queues"))
            for name in ["ann", *("carol" for _ in range(19)), "bob"]
        ]
        messages = [await heard_of(each, "event: page") for each in heard]
        assert looks <= 4, "once for each role, and again for those who came in between"
        tokens = [token_in(message) for message in messages]
        assert len(set(tokens[:-1])) == 20, "a token for each browser"
        assert not tokens[-1], "a viewer sees no forms"
        assert TOKEN_PLACEHOLDER not in "".join(messages)
    assert not site.state.dashboard.shared_pages._pages, "nobody looks any more"


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_one_person_may_follow_a_number_of_pages_and_the_next_is_refused(
    app: Headrace,
) -> None:
    site = dashboard(app, auth=who)
    async with AsyncExitStack() as stack:
        for number in range(streams.MOST_OF_ONE):
            view = f"/jobs?search={number}"
            one = await stack.enter_async_context(following(seen_by(site, "ann"), view))
            await heard_of(one, "event: page")
        async with following(seen_by(site, "ann"), "/") as refused:
            assert "Too many pages are open" in await heard_of(refused, "event: full")
            assert await refused.get() == ""
        async with following(seen_by(site, "carol"), "/") as other:
            await heard_of(other, "event: page")
    async with following(seen_by(site, "ann"), "/") as again:
        await heard_of(again, "event: page")


@pytest.mark.parametrize("store_url", ["memory://"])
@pytest.mark.parametrize("bound", ["MOST_STREAMS", "MOST_PAGES"])
async def test_there_is_a_bound_on_what_all_follow(
    app: Headrace, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(streams, bound, 2)
    site = dashboard(app, auth=who)
    async with (
        following(seen_by(site, "ann"), "/queues") as one,
        following(seen_by(site, "bob"), "/workers") as two,
        following(seen_by(site, "carol"), "/actions") as three,
    ):
        await heard_of(one, "event: page")
        await heard_of(two, "event: page")
        await heard_of(three, "event: full")


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_signal_between_two_steps_of_a_stream_ends_it_too(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(visit: Visit) -> HtmlPage:
        raise await asyncio.Future()

    site = dashboard(app, insecure=True)
    board = site.state.dashboard

    def stopped_meanwhile(*_: object) -> bool:
        board.streams.close()
        return True

    monkeypatch.setitem(VIEWS, "/queues", slow)
    monkeypatch.setattr(updates, "HEARTBEAT", 3600.0)
    monkeypatch.setattr(type(board.access), "is_valid", stopped_meanwhile)
    async with following(site, "/queues") as heard, asyncio.timeout(30):
        while await heard.get():
            pass


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_bug_in_a_page_ends_its_streams_and_no_other(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(visit: Visit) -> HtmlPage:
        raise KeyError("a bug")

    monkeypatch.setitem(VIEWS, "/workers", broken)
    site = dashboard(app, auth=who)
    ended = False

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        nonlocal ended
        with pytest.raises(KeyError):
            await seen_by(site, "ann")(scope, receive, send)
        ended = True

    async with (
        following(seen_by(site, "ann"), "/queues") as fine,
        following(watched, "/workers"),
    ):
        await heard_of(fine, "event: page")
        async with asyncio.timeout(30):
            while not ended:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await app.admin.pause("mail")
        await heard_of(fine, "Resume queue mail")
