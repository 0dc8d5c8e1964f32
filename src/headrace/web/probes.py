"""What programs ask: whether the dashboard lives, whether it can work, and how all is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from headrace.errors import ConfigError
from headrace.exposition import health
from headrace.exposition.server import HttpResponse
from headrace.web.errors import PageError
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from starlette.requests import Request


async def healthz(visit: Visit, request: Request) -> Response:
    """Whoever gets this answer has met a loop that is not blocked."""
    return _answered(health.response([]))


async def readyz(visit: Visit, request: Request) -> Response:
    """Whether the store answers. Says no more than that: it is for everyone."""
    is_away = bool(await visit.dashboard.probe.error())
    return _answered(health.response(["the store does not answer"] if is_away else []))


async def metrics(visit: Visit, request: Request) -> Response:
    """Of the whole store, for Prometheus."""
    try:
        from headrace.exposition import prometheus
    except ConfigError as error:
        raise PageError(404, f"There are no metrics here: {error}.") from None
    return _answered(await prometheus.fleet_metrics(visit.app, request.headers))


def _answered(page: HttpResponse) -> Response:
    headers = {"Content-Encoding": page.encoding} if page.encoding else None
    return Response(page.body, page.status, headers, media_type=page.content_type)
