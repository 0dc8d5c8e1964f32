"""What programs ask: whether the dashboard lives, whether it can work, and how all is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

from headrace.errors import ConfigError, HeadraceError
from headrace.web.page import Refusal, Visit

if TYPE_CHECKING:
    from starlette.requests import Request


async def healthz(visit: Visit, request: Request) -> Response:
    """Whoever gets this answer has met a loop that is not blocked."""
    return PlainTextResponse("ok\n")


async def readyz(visit: Visit, request: Request) -> Response:
    """Whether the store answers. Says no more than that: it is for everyone."""
    try:
        await visit.app.admin.supervisors()
    except HeadraceError:
        return PlainTextResponse("the store does not answer\n", 503)
    return PlainTextResponse("ok\n")


async def metrics(visit: Visit, request: Request) -> Response:
    """Of the whole store, for Prometheus."""
    try:
        from headrace.telemetry import prometheus
    except ConfigError as error:
        raise Refusal(404, f"There are no metrics here: {error}.") from None
    page = await prometheus.of_fleet(visit.app, request.headers)
    headers = {"Content-Encoding": page.encoding} if page.encoding else None
    return Response(page.body, page.status, headers, media_type=page.content_type)
