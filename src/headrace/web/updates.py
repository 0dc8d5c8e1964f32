"""Server-sent events: the main block of a page, sent again when it has changed."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import StreamingResponse

from headrace.admin.bodies import allowed
from headrace.errors import HeadraceError
from headrace.web.auth.users import User
from headrace.web.page import PageError, page_error_of
from headrace.web.rendering.formatting import visible
from headrace.web.routes import VIEWS
from headrace.web.streams import TOKEN_PLACEHOLDER, EventStream, PageUpdate, SharedPage, rest

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.client.session import ClientSession
    from headrace.web.rendering.renderer import Renderer
    from headrace.web.visit import View, Visit

# Proxies and browsers take a silent stream for dead.
HEARTBEAT = 15.0
# Browsers then reconnect, and are authenticated again. Short: a server that stops waits for open
# streams, and does not notify a dashboard that is mounted in an app.
LIFETIME = 30.0
_ERROR_PAUSE = 3.0
# The page then reloads itself every 15 seconds, and tries the stream again.
_REFUSED = (
    "retry: 15000\nevent: full\n"
    "data: Too many pages are open: this one is updated every 15 seconds.\n\n"
)


def stream_updates(
    visit: Visit, request: Request, renderer: Renderer, is_valid: Callable[[], bool]
) -> StreamingResponse:
    """Updates of the page that `view` in the query names, while the client listens and `is_valid`
    returns True."""
    path, _, query = visit.query.get("view", "").partition("?")
    view = VIEWS.get(path)
    if view is None:
        raise PageError(404, "There is no such page.")
    shown = replace(visit, path=path, query=dict(parse_qsl(query)))
    # A browser that reconnects still shows the last update.
    reconnects = "last-event-id" in request.headers
    page = _LivePage(_anyone(shown), view, renderer)
    return StreamingResponse(
        _Subscriber(shown, page, is_valid, reconnects).messages(),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


def _anyone(visit: Visit) -> Visit:
    """The same visit for any user of that role, as it is rendered for all of them."""
    user = User("anyone", visit.user.role)
    return replace(visit, user=user, csrf_token=TOKEN_PLACEHOLDER, address="")


@dataclass
class _LivePage:
    """Renders a page for all its subscribers."""

    visit: Visit
    view: View
    renderer: Renderer
    session: ClientSession | None = None
    """With the store, after the first rendering."""

    async def render(self) -> PageUpdate:
        # Rendering again would reopen the store of an app that has closed it.
        if self.session is not None and self.session.closed:
            return PageUpdate("", None)
        try:
            with allowed():
                page = await self.view(self.visit)
            self.session = await self.visit.app.session()
        except PageError as error:
            return PageUpdate(_event("trouble", visible(error.message)), _ERROR_PAUSE)
        except HeadraceError as error:
            message = page_error_of(error).message
            return PageUpdate(_event("trouble", visible(message)), _ERROR_PAUSE)
        html = self.renderer.live_block(self.visit, page)
        return PageUpdate(_event("last" if page.live is None else "page", html), page.live)


@dataclass
class _Subscriber:
    """One client's stream."""

    visit: Visit
    page: _LivePage
    is_valid: Callable[[], bool]
    reconnects: bool

    async def messages(self) -> AsyncIterator[str]:
        dashboard, visit = self.visit.dashboard, self.visit
        with dashboard.streams.opened((visit.user.name, visit.address)) as stream:
            if stream is None:
                yield _REFUSED
                return
            key = (visit.path, tuple(visit.query.items()), visit.root, visit.user.role)
            with dashboard.shared_pages.subscribed(key, self.page.render, stream.wake) as shared:
                if shared is None:
                    yield _REFUSED
                    return
                yield "retry: 500\nid: 1\n\n"
                async with aclosing(self._followed(shared, stream)) as messages:
                    async for message in messages:
                        yield message

    async def _followed(self, shared: SharedPage, stream: EventStream) -> AsyncGenerator[str, None]:
        began = sent = time.monotonic()
        wanted, last = (0.0, "") if self.reconnects else (began, "")
        if not self.reconnects:
            shared.request()
        while time.monotonic() < began + LIFETIME and self.is_valid():
            stream.wake.clear()
            # After that: the signal that ends it comes between any two steps, and wakes it once.
            if stream.ended:
                return
            update = shared.since(wanted)
            if update is None:
                await rest(stream.wake, HEARTBEAT)
            elif update.message and update.message != last:
                last, sent = update.message, time.monotonic()
                yield last.replace(TOKEN_PLACEHOLDER, self.visit.csrf_token)
            if time.monotonic() - sent > HEARTBEAT:
                sent = time.monotonic()
                yield ": still here\n\n"
            if update is not None:
                # From now on only later updates.
                wanted = math.nextafter(update.began, math.inf)
                if update.pause is None:
                    return


def _event(kind: str, text: str) -> str:
    lines = "\n".join(f"data: {line}" for line in text.split("\n"))
    return f"event: {kind}\n{lines}\n\n"
