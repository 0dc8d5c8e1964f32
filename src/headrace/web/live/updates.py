"""Pages that stay up to date: their main content, sent again when it has changed."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import StreamingResponse

from headrace.errors import HeadraceError
from headrace.web.auth.users import User
from headrace.web.error_pages import refusal_of
from headrace.web.live.shared_pages import TOKEN, Sight, Watch
from headrace.web.live.streams import Stream, rest
from headrace.web.page import Refusal, View, Visit
from headrace.web.rendering.formatting import visible
from headrace.web.routes import VIEWS

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.client.session import ClientSession
    from headrace.web.rendering.renderer import Rendering

# So that proxies and browsers do not take the stream for dead.
HEARTBEAT = 15.0
# Then browsers come again, and are asked again who they are. Short: a server that stops waits for
# streams, and does not tell a dashboard that is mounted in an app.
LIFETIME = 30.0
_TROUBLE_REST = 3.0
# What a page of ours does then: asks for the page itself now and then, and for the stream again.
_REFUSED = (
    "retry: 15000\nevent: full\n"
    "data: Too many pages are followed at once: this one is renewed every 15 seconds.\n\n"
)


def streamed(
    visit: Visit, request: Request, rendering: Rendering, holds: Callable[[], bool]
) -> StreamingResponse:
    """The page that `view` in the query names, for as long as someone listens and `holds` says that
    they still may."""
    path, _, query = visit.query.get("view", "").partition("?")
    view = VIEWS.get(path)
    if view is None:
        raise Refusal(404, "There is no such page to follow.")
    looking = replace(visit, path=path, query=dict(parse_qsl(query)))
    # A browser that comes back has shown what there was a moment ago.
    is_back = "last-event-id" in request.headers
    return StreamingResponse(
        _Stream(looking, _Looker(_anyone(looking), view, rendering), holds, is_back).messages(),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


def _anyone(visit: Visit) -> Visit:
    """The same visit by whoever may see as much: what is rendered for them all."""
    return replace(visit, user=User("anyone", visit.user.role), token=TOKEN, address="")


@dataclass
class _Looker:
    """Looks at a page, for all who watch it."""

    visit: Visit
    view: View
    rendering: Rendering
    session: ClientSession | None = None
    """With the store, once there was one."""

    async def look(self) -> Sight:
        # Another look would open the store again, of an app that has closed it.
        if self.session is not None and self.session.closed:
            return Sight("", None)
        try:
            page = await self.view(self.visit)
            self.session = await self.visit.app.session()
        except Refusal as refusal:
            return Sight(_message("trouble", visible(refusal.sentence)), _TROUBLE_REST)
        except HeadraceError as error:
            return Sight(_message("trouble", visible(refusal_of(error).sentence)), _TROUBLE_REST)
        html = self.rendering.live(self.visit, page)
        return Sight(_message("last" if page.live is None else "page", html), page.live)


@dataclass
class _Stream:
    """What one of them is sent."""

    visit: Visit
    looker: _Looker
    holds: Callable[[], bool]
    is_back: bool

    async def messages(self) -> AsyncIterator[str]:
        board, visit = self.visit.board, self.visit
        with board.streams.opened((visit.user.name, visit.address)) as stream:
            if stream is None:
                yield _REFUSED
                return
            what = (visit.path, tuple(visit.query.items()), visit.root, visit.user.role)
            with board.watches.joined(what, self.looker.look, stream.wake) as watch:
                if watch is None:
                    yield _REFUSED
                    return
                yield "retry: 500\nid: 1\n\n"
                async with aclosing(self._followed(watch, stream)) as messages:
                    async for message in messages:
                        yield message

    async def _followed(self, watch: Watch, stream: Stream) -> AsyncGenerator[str, None]:
        began = spoke = time.monotonic()
        wanted, last = (0.0, "") if self.is_back else (began, "")
        if not self.is_back:
            watch.poke()
        while time.monotonic() < began + LIFETIME and not stream.ended and self.holds():
            stream.wake.clear()
            sight = watch.since(wanted)
            if sight is None:
                await rest(stream.wake, HEARTBEAT)
            elif sight.message and sight.message != last:
                last, spoke = sight.message, time.monotonic()
                yield last.replace(TOKEN, self.visit.token)
            if time.monotonic() - spoke > HEARTBEAT:
                spoke = time.monotonic()
                yield ": still here\n\n"
            if sight is not None:
                # From now on those that come after it.
                wanted = math.nextafter(sight.began, math.inf)
                if sight.pause is None:
                    return


def _message(kind: str, text: str) -> str:
    lines = "\n".join(f"data: {line}" for line in text.split("\n"))
    return f"event: {kind}\n{lines}\n\n"
