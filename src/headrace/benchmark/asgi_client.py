"""Looking at a dashboard without a server or a browser, and what that asks of the store."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from headrace import Headrace

Message = MutableMapping[str, Any]
_OK = 200


class CountedStore:
    """A store that counts, by name, what is asked of it; all else is the store's."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def counted(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            self.calls[name] += 1
            answer: Awaitable[Any] = found(*args, **kwargs)
            return answer

        return counted


async def counted(app: Headrace) -> CountedStore:
    """The app's store, whose calls are counted from now on."""
    session = await app.session()
    session.store = store = CountedStore(session.store)
    return store


async def get(site: Any, path: str) -> bytes:
    """What an ASGI application answers, called as a server would."""
    answered: list[Message] = []

    async def send(message: Message) -> None:
        answered.append(message)

    await site(_scope(path), _asked_once(), send)
    assert answered[0]["status"] == _OK, answered
    return b"".join(message.get("body", b"") for message in answered[1:])


@asynccontextmanager
async def listening(site: Any, path: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The messages of a page that goes on, as they come; empty at its end. Leaves as a browser
    does."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    gone = asyncio.Event()
    asked = _asked_once()

    async def receive() -> Message:
        first = await asked()
        if first["type"] != "http.request":
            await gone.wait()
        return first

    async def send(message: Message) -> None:
        if gone.is_set():
            raise OSError("gone")
        if message["type"] == "http.response.body":
            heard.put_nowait(message["body"].decode())

    page = asyncio.create_task(site(_scope(path), receive, send))
    try:
        yield heard
    finally:
        gone.set()
        page.cancel()
        await asyncio.wait({page})


def _asked_once() -> Callable[[], Awaitable[Message]]:
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _scope(path: str) -> dict[str, Any]:
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8370")],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8370),
    }
