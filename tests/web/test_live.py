"""Pages that stay up to date."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlencode

import pytest

from headrace import Headrace, dashboard
from headrace.benchmark.looking import listening
from headrace.web.people import Passwords
from headrace.web.streams import rest
from tests.web.browsing import Person


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look a hundred times as often."""

    async def brief(end: asyncio.Event, seconds: float) -> None:
        await rest(end, seconds / 100)

    monkeypatch.setattr("headrace.web.live.rest", brief)


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
    async with following(site, "/deeds") as heard:
        await heard_of(heard, "event: page")
        site.state.board.streams.close()
        async with asyncio.timeout(10):
            assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_stream_ends_when_the_app_is_closed_and_does_not_open_it_again(
    app: Headrace,
) -> None:
    async with following(dashboard(app, insecure=True), "/deeds") as heard:
        await heard_of(heard, "event: page")
        session = await app.session()
        await app.close()
        assert session.closed
        async with asyncio.timeout(10):
            assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_stream_ends_when_its_session_does(app: Headrace) -> None:
    async with Person(app, auth=Passwords(["ann:s3cret"])) as person:
        await person.log_in("ann", "s3cret")
        cookies = "; ".join(f"{name}={value}" for name, value in person.http.cookies.items())

        async def known(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"host", b"127.0.0.1:8370"), (b"cookie", cookies.encode())]
            await person.site({**scope, "headers": headers}, receive, send)

        async with following(known, "/deeds") as heard:
            await heard_of(heard, "event: page")
            await person.http.post("/logout", data={"token": await person.token()})
            async with asyncio.timeout(10):
                assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_what_does_not_change_is_not_sent_again(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.live.HEARTBEAT", 0.0)
    async with following(dashboard(app, insecure=True), "/workers") as heard:
        await heard_of(heard, "event: page")
        async with asyncio.timeout(30):
            assert await heard.get() == ": still here\n\n"


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_trouble_is_told_and_the_stream_goes_on(app: Headrace) -> None:
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
    async with following(dashboard(app, insecure=True), "/doing?id=none") as heard:
        assert "Nothing is known of this" in await heard_of(heard, "event: last")
        assert await heard.get() == ""
