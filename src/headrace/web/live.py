"""Pages that stay up to date: their main content, sent again when it has changed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import StreamingResponse

from headrace.errors import HeadraceError
from headrace.web.page import Refusal, View, Visit
from headrace.web.refusals import refusal_of
from headrace.web.routes import VIEWS
from headrace.web.streams import rest
from headrace.web.wording import visible

if TYPE_CHECKING:
    from headrace.client.session import Session
    from headrace.web.rendering import Rendering

# So that proxies and browsers do not take the stream for dead.
HEARTBEAT = 15.0
# Then browsers come again, and are asked again who they are. Short: a server that stops waits for
# streams, and does not tell a dashboard that is mounted in an app.
LIFETIME = 30.0
_TROUBLE_REST = 3.0


def streamed(visit: Visit, rendering: Rendering, holds: Callable[[], bool]) -> StreamingResponse:
    """The page that `view` in the query names, for as long as someone listens and `holds` says that
    they still may."""
    path, _, query = visit.query.get("view", "").partition("?")
    view = VIEWS.get(path)
    if view is None:
        raise Refusal(404, "There is no such page to follow.")
    looking = replace(visit, path=path, query=dict(parse_qsl(query)))
    return StreamingResponse(
        _Stream(looking, view, rendering, holds).messages(),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


@dataclass
class _Stream:
    visit: Visit
    view: View
    rendering: Rendering
    holds: Callable[[], bool]
    session: Session | None = None
    """With the store, once there was one."""

    async def messages(self) -> AsyncIterator[str]:
        yield "retry: 500\n\n"
        until = time.monotonic() + LIFETIME
        last, spoke = "", time.monotonic()
        with self.visit.board.streams.opened() as end:
            while time.monotonic() < until and not end.is_set() and self._may_look():
                event, pause = await self._event()
                if event != last:
                    yield event
                    last, spoke = event, time.monotonic()
                elif time.monotonic() - spoke > HEARTBEAT:
                    yield ": still here\n\n"
                    spoke = time.monotonic()
                if pause is None:
                    return
                await rest(end, pause)

    def _may_look(self) -> bool:
        # Another look would open the store again, of an app that has closed it.
        is_closed = self.session is not None and self.session.closed
        return not is_closed and self.holds()

    async def _event(self) -> tuple[str, float | None]:
        """What there is to tell now, and when to look again; None for never."""
        try:
            page = await self.view(self.visit)
            self.session = await self.visit.app.session()
        except Refusal as refusal:
            return _message("trouble", visible(refusal.sentence)), _TROUBLE_REST
        except HeadraceError as error:
            return _message("trouble", visible(refusal_of(error).sentence)), _TROUBLE_REST
        html = self.rendering.live(self.visit, page)
        return _message("last" if page.live is None else "page", html), page.live


def _message(kind: str, text: str) -> str:
    lines = "\n".join(f"data: {line}" for line in text.split("\n"))
    return f"event: {kind}\n{lines}\n\n"
