"""The dashboard as an ASGI app: its routes, and what happens around each view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from headrace.errors import HeadraceError
from headrace.web import probes
from headrace.web.actions import form_actions
from headrace.web.auth import login_page
from headrace.web.auth.origins import check_origin, origins_of
from headrace.web.error_pages import TITLES, refusal_of
from headrace.web.flash import forget_notice, found_notice
from headrace.web.live import updates
from headrace.web.page import LoginWanted, Page, Refusal, Visit
from headrace.web.pages import raw
from headrace.web.rendering.renderer import Rendering
from headrace.web.routes import VIEWS
from headrace.web.security_headers import HEADERS, Headers
from headrace.web.state import Board

if TYPE_CHECKING:
    from headrace.admin.redaction import Redact
    from headrace.app import Headrace
    from headrace.web.auth.access import Access

STATIC = Path(__file__).parent / "static"

_SENTENCES = {
    401: "You may not see this dashboard: log in where you usually do.",
    403: "You may not see this dashboard.",
    404: "There is no such page.",
    405: "This address is not for that.",
}

Answer: TypeAlias = "Page | Response"
Handler = Callable[[Visit, Request], Awaitable[Answer]]
Endpoint = Callable[[Request], Awaitable[Response]]


def site(
    app: Headrace,
    *,
    access: Access,
    redact: Redact | None,
    origins: Collection[str] | None,
    title: str,
) -> Starlette:
    """See `headrace.dashboard`."""
    board = Board(app, title, access, redact, origins_of(origins))
    made = Site(board)
    dashboard = Starlette(
        routes=made.routes(),
        middleware=[Middleware(Headers)],
        exception_handlers={HTTPException: made.not_served, Exception: made.failed},
    )
    dashboard.state.board = board
    return dashboard


class Site:
    """Turns requests into visits, and pages into answers."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._rendering = Rendering()
        self._files = StaticFiles(directory=STATIC)

    def routes(self) -> list[Route]:
        shown = [Route(path, self._inside(self._show), methods=["GET"]) for path in VIEWS]
        return [
            *shown,
            Route("/live", self._inside(self._follow), methods=["GET"]),
            Route("/raw", self._inside(raw.whole), methods=["GET"]),
            Route("/do/{verb}", self._inside(form_actions.done), methods=["POST"]),
            Route("/login", self._outside(login_page.login), methods=["GET", "POST"]),
            Route("/logout", self._inside(login_page.logout), methods=["POST"]),
            Route("/metrics", self._inside(probes.metrics), methods=["GET"]),
            Route("/healthz", self._outside(probes.healthz), methods=["GET"]),
            Route("/readyz", self._outside(probes.readyz), methods=["GET"]),
            # No Mount: it would change the root path, by which addresses and cookies are made.
            Route("/static/{path:path}", self._file, methods=["GET"]),
        ]

    async def not_served(self, request: Request, error: Exception) -> Response:
        """For paths that there are not, and for what an auth hook raises."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        refusal = Refusal(status, _SENTENCES.get(status, "That cannot be answered."))
        visit = self._board.visit(request)
        with suppress(Refusal, LoginWanted, HTTPException):
            visit = await self._board.admitted(request)
        response = self._refused(request, visit, refusal)
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    async def failed(self, request: Request, error: Exception) -> Response:
        """For bugs, which the server logs."""
        refusal = Refusal(500, "Something went wrong in the dashboard itself: see its log.")
        response = self._refused(request, self._board.visit(request), refusal)
        # Starlette answers these outside of all middleware.
        response.headers.update({**HEADERS, "Cache-Control": "no-store"})
        return response

    def _inside(self, handler: Handler) -> Endpoint:
        """For those who are let in."""

        async def called(request: Request) -> Response:
            visit = self._board.visit(request)
            try:
                check_origin(request, self._board.origins)
                visit = await self._board.admitted(request)
                answer = await handler(visit, request)
            except LoginWanted:
                return login_page.shown(visit, request)
            except Refusal as refusal:
                return self._refused(request, visit, refusal)
            except HeadraceError as error:
                return self._refused(request, visit, refusal_of(error))
            return self._answered(request, visit, answer)

        return called

    def _outside(self, handler: Handler) -> Endpoint:
        """For everyone."""

        async def called(request: Request) -> Response:
            visit = self._board.visit(request)
            try:
                check_origin(request, self._board.origins)
                answer = await handler(visit, request)
            except Refusal as refusal:
                return self._refused(request, visit, refusal)
            return self._answered(request, visit, answer)

        return called

    async def _show(self, visit: Visit, request: Request) -> Answer:
        return await VIEWS[visit.path](visit)

    async def _file(self, request: Request) -> Response:
        return await self._files.get_response(request.path_params["path"], request.scope)

    async def _follow(self, visit: Visit, request: Request) -> Answer:
        return updates.streamed(
            visit, request, self._rendering, lambda: self._board.access.holds(request)
        )

    def _answered(self, request: Request, visit: Visit, answer: Answer) -> Response:
        if isinstance(answer, Response):
            return answer
        notice = found_notice(request)
        html = self._rendering.whole(visit, answer, notice)
        response = HTMLResponse(html, answer.status)
        request.state.seal.leave(response)
        if notice is not None:
            forget_notice(request, response)
        return response

    def _refused(self, request: Request, visit: Visit, refusal: Refusal) -> Response:
        title = TITLES.get(refusal.status, "That did not work")
        context = {"sentence": refusal.sentence}
        page = Page("refusal.html", title, context, live=None, status=refusal.status)
        response = self._answered(request, visit, page)
        if refusal.retry_after is not None:
            response.headers["Retry-After"] = str(refusal.retry_after)
        return response
