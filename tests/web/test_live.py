"""Pages that stay up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from headrace import Headrace, dashboard
from headrace.web.streams import rest


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look a hundred times as often."""

    async def brief(end: asyncio.Event, seconds: float) -> None:
        await rest(end, seconds / 100)

    monkeypatch.setattr("headrace.web.live.rest", brief)


@asynccontextmanager
async def following(site: Any, view: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The messages of a stream, as they come; empty at its end. Leaves as a browser does."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    gone = asyncio.Event()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/live",
        "raw_path": b"/live",
        "query_string": urlencode({"view": view}).encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8370")],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8370),
    }
    first = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if first:
            return first.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if gone.is_set():
            raise OSError("gone")
        if message["type"] == "http.response.body":
            heard.put_nowait(message["body"].decode())

    stream = asyncio.create_task(site(scope, receive, send))
    try:
        yield heard
    finally:
        gone.set()
        stream.cancel()
        await asyncio.wait({stream})


async def heard_of(heard: asyncio.Queue[str], text: str) -> str:
    """The first message that tells of it."""
    async with asyncio.timeout(30):
        while text not in (message := await heard.get()):
            pass
    return message


async def test_a_change_is_sent_as_it_is_seen(app: Headrace) -> None:
    async with following(dashboard(app), "/queues") as heard:
        first = await heard_of(heard, "event: page")
        assert "<html" not in first
        await app.admin.pause("mail")
        message = await heard_of(heard, "Resume queue mail")
        lines = message.removesuffix("\n\n").split("\n")
        assert lines[0] == "event: page"
        assert all(line.startswith("data: ") for line in lines[1:])


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_stream_ends_when_the_server_does(app: Headrace) -> None:
    site = dashboard(app)
    async with following(site, "/deeds") as heard:
        await heard_of(heard, "event: page")
        site.state.board.streams.close()
        async with asyncio.timeout(10):
            assert await heard.get() == ""


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_what_does_not_change_is_not_sent_again(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.live.HEARTBEAT", 0.0)
    async with following(dashboard(app), "/workers") as heard:
        await heard_of(heard, "event: page")
        async with asyncio.timeout(30):
            assert await heard.get() == ": still here\n\n"


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_trouble_is_told_and_the_stream_goes_on(app: Headrace) -> None:
    async with following(dashboard(app), "/queue?name=billing@orders") as heard:
        assert "There is no topic" in await heard_of(heard, "event: trouble")
        orders = app.topic("orders", str)

        @orders.subscribe("billing")
        async def bill(order: str) -> None: ...

        await orders.publish("o-1")
        await heard_of(heard, "event: page")


@pytest.mark.parametrize("store_url", ["memory://"])
async def test_a_page_that_is_complete_ends_the_stream(app: Headrace) -> None:
    async with following(dashboard(app), "/doing?id=none") as heard:
        assert "Nothing is known of this" in await heard_of(heard, "event: last")
        assert await heard.get() == ""
