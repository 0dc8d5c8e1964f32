"""Login, by name and password or by token, and logout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from headrace.web.actions.form_actions import own_path, sent_form
from headrace.web.auth.cookies import cookie, forget_cookie, set_cookie
from headrace.web.auth.csrf import SESSION, VISITOR
from headrace.web.auth.local_access import LocalAccess
from headrace.web.auth.password_access import (
    DEVICE,
    DEVICE_SECONDS,
    SESSION_SECONDS,
    PasswordAccess,
)
from headrace.web.page import FlashMessage, HtmlPage, PageError, set_flash
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.web.auth.access import Access

_NOT_DONE = FlashMessage(
    "Your session was over, and nothing was done: log in and try again.", "warn"
)


def login_required(visit: Visit, request: Request) -> Response:
    """The response to an unauthenticated request: a redirect to the form for browsers, a 401 for
    programs. A request with the right token in its address gets a session instead, and is
    redirected to the address without it."""
    access = visit.dashboard.access
    if isinstance(access, LocalAccess) and access.is_token(request.query_params.get("token", "")):
        response = RedirectResponse(visit.again(token=None), 303)
        _begin_local_session(access, request, response)
        forget_cookie(request, response, VISITOR)
        return response
    if "text/html" in request.headers.get("accept", ""):
        is_form = request.method == "POST"
        here = visit.again(token=None).removeprefix(visit.root)
        back = here if not is_form and here != "/" else None
        response = RedirectResponse(visit.url("/login", back=back), 303)
        if is_form:
            set_flash(request, response, _NOT_DONE)
        return response
    scheme, what = 'Basic realm="Headrace", charset="UTF-8"', "a name and a password (HTTP Basic)"
    if isinstance(access, LocalAccess):
        scheme, what = "Bearer", "the token (Authorization: Bearer TOKEN)"
    return PlainTextResponse(
        f"Send {what}, or log in.\n",
        401,
        headers=None if _is_browser(request) else {"WWW-Authenticate": scheme},
    )


def _is_browser(request: Request) -> bool:
    """Whether a browser asks. After a challenge, a browser would ask for the password itself and
    send it from then on: nobody could log out."""
    headers = request.headers
    return (
        any(name.startswith("sec-fetch-") for name in headers)
        or "text/event-stream" in headers.get("accept", "")
        or request.method == "POST"
    )


async def login(visit: Visit, request: Request) -> HtmlPage | Response:
    """Show the form, or log in with what was posted."""
    access = visit.dashboard.access
    if isinstance(access, LocalAccess):
        access.check_local(request)
    elif not isinstance(access, PasswordAccess):
        raise PageError(404, "There is nothing to log in to here.")
    if request.method == "GET":
        return _form(access, own_path(visit.query.get("back", "/")))
    form = await sent_form(request)
    request.state.csrf.check(form.get("csrf_token", ""))
    back = own_path(form.get("back", "/"))
    response = RedirectResponse(visit.root + back, 303)
    if isinstance(access, LocalAccess):
        if not access.is_token(form.get("password", "").strip()):
            return _form(access, back, problem="This is not the token.")
        _begin_local_session(access, request, response)
    else:
        name = form.get("name", "")
        user = await access.check(request, name, form.get("password", ""))
        if user is None:
            return _form(access, back, name, "Wrong name or password.")
        set_cookie(request, response, SESSION, access.session(user), SESSION_SECONDS)
        set_cookie(request, response, DEVICE, access.device(user), DEVICE_SECONDS)
    # A new CSRF token after the login: someone may have seen the old one.
    forget_cookie(request, response, VISITOR)
    return response


def _begin_local_session(access: LocalAccess, request: Request, response: Response) -> None:
    seconds = access.session_seconds(request)
    set_cookie(request, response, SESSION, access.session(request), seconds)


def _form(access: Access, back: str, name: str = "", problem: str = "") -> HtmlPage:
    template = "token.html" if isinstance(access, LocalAccess) else "login.html"
    context = {"back": back, "name": name, "problem": problem}
    return HtmlPage(template, "Log in", context, live=None, status=401 if problem else 200)


async def logout(visit: Visit, request: Request) -> Response:
    access = visit.dashboard.access
    if not isinstance(access, PasswordAccess):
        raise PageError(404, "There is nothing to log out of here.")
    form = await sent_form(request)
    request.state.csrf.check(form.get("csrf_token", ""))
    access.end(cookie(request, SESSION))
    response = RedirectResponse(visit.url("/login"), 303)
    forget_cookie(request, response, SESSION)
    forget_cookie(request, response, VISITOR)
    return response
