"""Requests that are begun and not ended, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

from headrace import Headrace, dashboard
from headrace.web import server
from headrace.web.auth.users import User
from tests.browser.serving import served
from tests.web.browsing import Person

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
FORM = (
    b"POST /actions/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)


@pytest.fixture
def store_url() -> str:
    return "memory://"


async def who(request: Request) -> User:
    if "x-slow" in request.headers:
        await asyncio.sleep(3 * server.HEADER_SECONDS)
    return User("ann")


@pytest.fixture
async def port(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(server, "BODY_SECONDS", 0.3)
    site = dashboard(app, auth=who)
    async with served(site, http=server.TimeoutProtocol) as address:
        yield int(urlsplit(address).port or 0)


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def at(cls, port: int) -> Caller:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def answer(self) -> bytes:
        """What comes until the connection is closed."""
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                return await self.reader.read()
            return b""


@pytest.mark.parametrize("begun", [b"", HEAD, FORM, FORM + b"\r\nqueue=mail"])
async def test_a_request_that_does_not_come_to_its_end_is_closed(port: int, begun: bytes) -> None:
    caller = await Caller.at(port)
    caller.writer.write(begun)
    await caller.answer()
    caller.writer.close()


async def test_a_drop_now_and_then_keeps_nothing_open(port: int) -> None:
    for begun, drop in ((HEAD, b"x: y\r\n"), (FORM + b"\r\n", b"z")):
        caller = await Caller.at(port)

        async def drip(caller: Caller = caller, begun: bytes = begun, drop: bytes = drop) -> None:
            caller.writer.write(begun)
            while True:
                caller.writer.write(drop)
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        await caller.answer()
        dripping.cancel()
        caller.writer.close()


async def test_the_second_request_of_a_connection_has_no_more_time(port: int) -> None:
    caller = await Caller.at(port)
    caller.writer.write(HEAD + b"\r\n" + HEAD)
    answer = await caller.answer()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"HTTP/1.1") == 1
    caller.writer.close()


async def test_whoever_has_asked_may_be_answered_slowly(port: int) -> None:
    caller = await Caller.at(port)
    ask = b"GET /queues HTTP/1.1\r\nHost: x\r\nX-Slow: 1\r\nConnection: close\r\n\r\n"
    caller.writer.write(ask)
    answer = await caller.answer()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"</html>")
    caller.writer.close()


async def test_there_is_a_bound_on_connections(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 60.0)
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    callers = [await Caller.at(port) for _ in range(4)]
    answers = [asyncio.create_task(caller.answer()) for caller in callers]
    done, _ = await asyncio.wait(answers, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    for caller in callers:
        caller.writer.close()
    await asyncio.gather(*answers)


async def test_a_form_that_comes_by_drops_is_refused_wherever_it_is_served(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.web.actions.form_actions._SECONDS", 0.05)

    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b"queue=mail&"
            await asyncio.sleep(0.01)

    async with Person(app) as person:
        # The transport of the tests reads a body to its end first: it is called by hand.
        headers = {"content-type": "application/x-www-form-urlencoded"}
        request = person.http.build_request("POST", "/actions/pause", headers=headers)
        pieces, sent = drops(), []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": await anext(pieces), "more_body": True}

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        raw = [(name.lower(), value) for name, value in request.headers.raw]
        raw.append((b"origin", b"http://127.0.0.1:8370"))
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": "/actions/pause", "raw_path": b"/actions/pause",
            "query_string": b"", "root_path": "",
            "headers": raw, "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8370),
        }  # fmt: skip
        async with asyncio.timeout(60):
            await person.site(scope, receive, send)
        assert sent[0]["status"] == 408
