"""Someone who looks at the dashboard, by hand: without a browser, and without a server."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import httpx2 as httpx

from headrace import Headrace, dashboard

HOME = "http://127.0.0.1:8370"
TOKEN = "the token of this machine's user"
BARE = "x-test-bare"
HTML = {"accept": "text/html,*/*"}


class Person:
    """Keeps cookies, and sends forms as they were given."""

    def __init__(
        self,
        app: Headrace | Any,
        *,
        home: str = HOME,
        client: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        is_local = not options.get("auth") and not options.get("insecure")
        self.site: Any = app
        if isinstance(app, Headrace):
            options |= {"token": TOKEN} if is_local else {}
            self.site = dashboard(app, **options)
        transport = httpx.ASGITransport(self.site, client=(client, 50_000))
        known = {"authorization": f"Bearer {TOKEN}"} if is_local else {}
        self.http = httpx.AsyncClient(
            transport=transport,
            base_url=home,
            headers={**HTML, **known, **(headers or {})},
            event_hooks={"request": [_from_here]},
        )

    async def __aenter__(self) -> Person:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.http.aclose()

    async def get(self, path: str, **query: str) -> httpx.Response:
        return await self.http.get(path, params=query or None)

    async def page(self, path: str, **query: str) -> str:
        """The text of a page that is there."""
        answer = await self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def token(self, path: str = "/") -> str:
        """What forms on a page bring along."""
        found = re.search(r'name="csrf_token" value="([0-9a-f]+)"', (await self.get(path)).text)
        assert found, "the page has no form"
        return found[1]

    async def do(
        self,
        verb: str,
        back: str = "/queues",
        headers: Mapping[str, str] | None = None,
        **fields: str,
    ) -> httpx.Response:
        """Send a form of a page that has one."""
        sent = {"csrf_token": await self.token("/queue?name=mail"), "back": back, **fields}
        return await self.http.post(f"/actions/{verb}", data=sent, headers=headers)

    async def log_in(self, name: str, password: str) -> httpx.Response:
        sent = {"csrf_token": await self.token("/login"), "name": name, "password": password}
        return await self.http.post("/login", data=sent)


async def _from_here(request: httpx.Request) -> None:
    """As browsers do: say which site a form comes from, unless `BARE`."""
    if request.method == "POST" and "origin" not in request.headers and BARE not in request.headers:
        url = request.url
        request.headers["origin"] = f"{url.scheme}://{url.netloc.decode()}"


def flash(page: str) -> str:
    """The flash message of a page."""
    found = re.search(r'class="flash \w+" role="status"><p>(.*?)</p>', page, re.S)
    return html.unescape(found[1]) if found else ""
