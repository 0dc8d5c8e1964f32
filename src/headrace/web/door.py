"""Coming in and going out by name and password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from headrace.web.cookies import cookie, forget_cookie, set_cookie
from headrace.web.deeds import own_path, sent_form
from headrace.web.forgery import SESSION, VISITOR
from headrace.web.login import SESSION_SECONDS, LoginAccess
from headrace.web.notices import Notice, leave_notice
from headrace.web.page import Page, Refusal, Visit

if TYPE_CHECKING:
    from starlette.requests import Request

_NOT_DONE = Notice("Nothing was done, for your session was over: log in, and repeat it.", "warn")


def shown(visit: Visit, request: Request) -> Response:
    """To someone who is not known: a person is taken to the form, a program told what to send."""
    if "text/html" in request.headers.get("accept", ""):
        is_form = request.method == "POST"
        back = visit.here if not is_form and visit.path != "/" else None
        response = RedirectResponse(visit.url("/login", back=back), 303)
        if is_form:
            leave_notice(request, response, _NOT_DONE)
        return response
    challenge = {"WWW-Authenticate": 'Basic realm="Headrace", charset="UTF-8"'}
    return PlainTextResponse(
        "Send a name and a password (HTTP Basic), or log in.\n",
        401,
        headers=None if _is_browser(request) else challenge,
    )


def _is_browser(request: Request) -> bool:
    """One that is challenged asks for a password by itself, and sends it ever after: nobody could
    log out again."""
    headers = request.headers
    return (
        any(name.startswith("sec-fetch-") for name in headers)
        or "text/event-stream" in headers.get("accept", "")
        or request.method == "POST"
    )


async def login(visit: Visit, request: Request) -> Page | Response:
    """The form, and what becomes of it."""
    access = visit.board.access
    if not isinstance(access, LoginAccess):
        raise Refusal(404, "There is nothing to log in to here.")
    back = own_path(visit.query.get("back", "/"))
    if request.method == "GET":
        return _form(back)
    form = await sent_form(request)
    request.state.seal.check(form.get("token", ""))
    back = own_path(form.get("back", "/"))
    user = await access.check(form.get("name", ""), form.get("password", ""))
    if user is None:
        return _form(back, form.get("name", ""), "Name and password do not belong together.")
    response = RedirectResponse(visit.root + back, 303)
    set_cookie(request, response, SESSION, access.session(user), SESSION_SECONDS)
    # Whoever knew the one from before the login knows nothing of what comes.
    forget_cookie(request, response, VISITOR)
    return response


def _form(back: str, name: str = "", problem: str = "") -> Page:
    context = {"back": back, "name": name, "problem": problem}
    return Page("login.html", "Log in", context, live=None, status=401 if problem else 200)


async def logout(visit: Visit, request: Request) -> Response:
    access = visit.board.access
    if not isinstance(access, LoginAccess):
        raise Refusal(404, "There is nothing to log out of here.")
    form = await sent_form(request)
    request.state.seal.check(form.get("token", ""))
    access.end(cookie(request, SESSION))
    response = RedirectResponse(visit.url("/login"), 303)
    forget_cookie(request, response, SESSION)
    forget_cookie(request, response, VISITOR)
    return response
