"""The dashboard as an ASGI app: its routes, what wraps each view, and endpoints for programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from headrace.admin.bodies import allowed
from headrace.errors import ConfigError, HeadraceError
from headrace.exposition import health
from headrace.exposition.server import HttpResponse
from headrace.web import updates
from headrace.web.actions import form_actions
from headrace.web.auth import login_page
from headrace.web.auth.csrf import check_origin, origins_of
from headrace.web.page import (
    ERROR_TITLES,
    HtmlPage,
    LoginRequired,
    PageError,
    clear_flash,
    get_flash,
    page_error_of,
)
from headrace.web.pages import job
from headrace.web.rendering.export import json_list
from headrace.web.rendering.renderer import Renderer
from headrace.web.routes import VIEWS
from headrace.web.security_headers import SECURITY_HEADERS, SecurityHeaders
from headrace.web.visit import DashboardState, Visit, visit_of

if TYPE_CHECKING:
    from headrace.admin.redaction import Redact
    from headrace.app import Headrace
    from headrace.web.auth.access import Access

STATIC = Path(__file__).parent / "static"

_MESSAGES = {
    401: "You may not see this dashboard: log in where you usually do.",
    403: "You may not see this dashboard.",
    404: "There is no such page.",
    405: "This address does not support that method.",
}

Answer: TypeAlias = "HtmlPage | Response"
Handler = Callable[[Visit, Request], Awaitable[Answer]]
RequestHandler = Callable[[Request], Awaitable[Response]]


def site(
    app: Headrace,
    *,
    access: Access,
    redact: Redact | None,
    origins: Collection[str] | None,
    title: str,
) -> Starlette:
    """See `headrace.dashboard`."""
    state = DashboardState(app, title, access, redact, origins_of(origins))
    made = Site(state)
    dashboard = Starlette(
        routes=made.routes(),
        middleware=[Middleware(SecurityHeaders)],
        exception_handlers={HTTPException: made.http_error, Exception: made.internal_error},
    )
    dashboard.state.dashboard = state
    return dashboard


class Site:
    """Turns requests into visits, and pages into responses."""

    def __init__(self, dashboard: DashboardState) -> None:
        self._dashboard = dashboard
        self._renderer = Renderer()
        self._files = StaticFiles(directory=STATIC)

    def routes(self) -> list[Route]:
        views = [Route(path, self._private(self._view), methods=["GET"]) for path in VIEWS]
        return [
            *views,
            Route("/live", self._private(self._live), methods=["GET"]),
            Route("/raw", self._private(job.download), methods=["GET"]),
            Route("/actions/{verb}", self._private(form_actions.handle), methods=["POST"]),
            Route("/login", self._public(login_page.login), methods=["GET", "POST"]),
            Route("/logout", self._private(login_page.logout), methods=["POST"]),
            Route("/metrics", self._private(metrics), methods=["GET"]),
            Route("/healthz", self._public(healthz), methods=["GET"]),
            Route("/readyz", self._public(readyz), methods=["GET"]),
            # No Mount: it would change the root path, which URLs and cookies are made from.
            Route("/static/{path:path}", self._file, methods=["GET"]),
        ]

    async def http_error(self, request: Request, error: Exception) -> Response:
        """For unknown paths, and for exceptions of an auth hook."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        shown = PageError(status, _MESSAGES.get(status, "This request cannot be answered."))
        visit = visit_of(self._dashboard, request)
        with suppress(PageError, LoginRequired, HTTPException):
            visit = await self._authenticated(request)
        response = self._error(request, visit, shown)
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    async def internal_error(self, request: Request, error: Exception) -> Response:
        """For bugs, which the server logs."""
        shown = PageError(500, "An error inside the dashboard: see its log.")
        response = self._error(request, visit_of(self._dashboard, request), shown)
        # Starlette sends these outside of all middleware.
        response.headers.update({**SECURITY_HEADERS, "Cache-Control": "no-store"})
        return response

    async def _authenticated(self, request: Request) -> Visit:
        """The visit of the user. Raises what `Access.authenticate` does."""
        user = await self._dashboard.access.authenticate(request)
        return visit_of(self._dashboard, request, user)

    def _private(self, handler: Handler) -> RequestHandler:
        """For authenticated users."""

        async def handle(request: Request) -> Response:
            visit = visit_of(self._dashboard, request)
            try:
                check_origin(request, self._dashboard.origins)
                visit = await self._authenticated(request)
                # Not when it is mounted: the app's modules may still be in the middle of imports.
                visit.app.load()
                answer = await handler(visit, request)
            except LoginRequired:
                return login_page.login_required(visit, request)
            except PageError as error:
                return self._error(request, visit, error)
            except HeadraceError as error:
                return self._error(request, visit, page_error_of(error))
            return self._response(request, visit, answer)

        return handle

    def _public(self, handler: Handler) -> RequestHandler:
        """For everyone."""

        async def handle(request: Request) -> Response:
            visit = visit_of(self._dashboard, request)
            try:
                check_origin(request, self._dashboard.origins)
                answer = await handler(visit, request)
            except PageError as error:
                return self._error(request, visit, error)
            return self._response(request, visit, answer)

        return handle

    async def _view(self, visit: Visit, request: Request) -> Answer:
        with allowed():
            page = await VIEWS[visit.path](visit)
        if visit.query.get("format") != "json":
            return page
        which = visit.query.get("list") or None
        rows = page.listed(which)
        if rows is None:
            raise PageError(404, "This page has no such list.")
        name = "-".join(filter(None, (visit.path.strip("/") or "overview", which)))
        headers = {"Content-Disposition": f'attachment; filename="{name}.json"'}
        # Each piece is made in a thread: arguments may have megabytes.
        pieces = json_list(rows)
        return StreamingResponse(pieces, media_type="application/json", headers=headers)

    async def _file(self, request: Request) -> Response:
        return await self._files.get_response(request.path_params["path"], request.scope)

    async def _live(self, visit: Visit, request: Request) -> Answer:
        access = self._dashboard.access
        return updates.stream_updates(
            visit, request, self._renderer, lambda: access.is_valid(request)
        )

    def _response(self, request: Request, visit: Visit, answer: Answer) -> Response:
        if isinstance(answer, Response):
            return answer
        flash = get_flash(request)
        response = HTMLResponse(self._renderer.document(visit, answer, flash), answer.status)
        request.state.csrf.set_cookie(response)
        if flash is not None:
            clear_flash(request, response)
        return response

    def _error(self, request: Request, visit: Visit, error: PageError) -> Response:
        title = ERROR_TITLES.get(error.status, "That did not work")
        context = {"message": error.message}
        page = HtmlPage("error.html", title, context, live=None, status=error.status)
        response = self._response(request, visit, page)
        if error.retry_after is not None:
            response.headers["Retry-After"] = str(error.retry_after)
        return response


async def healthz(visit: Visit, request: Request) -> Response:
    """Always 200: an answer shows that the event loop is not blocked."""
    return _answered(health.response([]))


async def readyz(visit: Visit, request: Request) -> Response:
    """Whether the store answers; no details, since this needs no login."""
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
