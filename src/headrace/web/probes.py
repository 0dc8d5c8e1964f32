"""Endpoints for programs: liveness, readiness and metrics."""

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
    """Always 200: an answer shows that the event loop is not blocked."""
    return _answered(health.response([]))


async def readyz(visit: Visit, request: Request) -> Response:
    """Whether the store answers. It says no more, since everyone may ask."""
    is_away = bool(await visit.dashboard.probe.error())
    return _answered(health.response(["the store does not answer"] if is_away else []))


async def metrics(visit: Visit, request: Request) -> Response:
    """Prometheus metrics of the whole store."""
    try:
        from headrace.exposition import prometheus
    except ConfigError as error:
        raise PageError(404, f"There are no metrics here: {error}.") from None
    return _answered(await prometheus.fleet_metrics(visit.app, request.headers))


def _answered(page: HttpResponse) -> Response:
    headers = {"Content-Encoding": page.encoding} if page.encoding else None
    return Response(page.body, page.status, headers, media_type=page.content_type)
