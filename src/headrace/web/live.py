"""Pages that stay up to date: their main content, sent again when it has changed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from starlette.responses import StreamingResponse

from headrace.errors import HeadraceError
from headrace.web.page import Refusal, View, Visit
from headrace.web.refusals import refusal_of
from headrace.web.routes import VIEWS
from headrace.web.streams import rest

if TYPE_CHECKING:
    from headrace.web.rendering import Rendering

# So that proxies and browsers do not take the stream for dead.
HEARTBEAT = 15.0
# Then browsers come again, and are asked again who they are.
LIFETIME = 300.0
_TROUBLE_REST = 3.0


def streamed(visit: Visit, rendering: Rendering) -> StreamingResponse:
    """The page that `view` in the query names, for as long as someone listens."""
    parts = urlsplit(visit.query.get("view", ""))
    view = VIEWS.get(parts.path)
    if view is None:
        raise Refusal(404, "There is no such page to follow.")
    looking = replace(visit, path=parts.path, query=dict(parse_qsl(parts.query)))
    return StreamingResponse(
        _stream(looking, view, rendering),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _stream(visit: Visit, view: View, rendering: Rendering) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    until = time.monotonic() + LIFETIME
    last, spoke = "", time.monotonic()
    with visit.board.streams.opened() as end:
        while time.monotonic() < until and not end.is_set():
            event, pause = await _event(visit, view, rendering)
            if event != last:
                yield event
                last, spoke = event, time.monotonic()
            elif time.monotonic() - spoke > HEARTBEAT:
                yield ": still here\n\n"
                spoke = time.monotonic()
            if pause is None:
                return
            await rest(end, pause)


async def _event(visit: Visit, view: View, rendering: Rendering) -> tuple[str, float | None]:
    """What there is to tell now, and when to look again; None for never."""
    try:
        page = await view(visit)
    except Refusal as refusal:
        return _message("trouble", refusal.sentence), _TROUBLE_REST
    except HeadraceError as error:
        return _message("trouble", refusal_of(error).sentence), _TROUBLE_REST
    if page.live is None:
        return _message("last", rendering.live(visit, page)), None
    return _message("page", rendering.live(visit, page)), page.live


def _message(kind: str, text: str) -> str:
    lines = "\n".join(f"data: {line}" for line in text.split("\n"))
    return f"event: {kind}\n{lines}\n\n"
