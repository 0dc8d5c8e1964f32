"""Form actions: each has a verb, and its forms are posted to `/actions/{verb}`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from headrace.web.page import HtmlPage, PageError, set_flash
from headrace.web.visit import Form, Visit

if TYPE_CHECKING:
    from starlette.requests import Request

ActionHandler = Callable[[Visit], Awaitable[str]]
Question: TypeAlias = "str | Callable[[Visit], str | Awaitable[str]]"

# Bounds the memory of a form; edited arguments have a megabyte at most by default.
_MOST_BYTES = 16 * 1024 * 1024
_MOST_FIELDS = 10_000
_SECONDS = 60.0
OURS = ("csrf_token", "back", "sure")
"""Fields that every form has."""


@dataclass(frozen=True, slots=True)
class FormAction:
    verb: str
    label: str
    handler: ActionHandler
    question: Question | None


FORM_ACTIONS: dict[str, FormAction] = {}


def form_action(
    verb: str, label: str = "", *, confirm: Question | None = None
) -> Callable[[ActionHandler], ActionHandler]:
    """Register the handler of forms posted to `/actions/{verb}`. It takes the visit, whose `form`
    has the fields, and returns a flash message that says what was done. With `confirm`, a question
    or a function from the visit to one, the user has to confirm first, with a button `label`."""

    def registered(handler: ActionHandler) -> ActionHandler:
        FORM_ACTIONS[verb] = FormAction(
            verb, label or verb.replace("_", " ").capitalize(), handler, confirm
        )
        return handler

    return registered


async def sent_form(request: Request) -> Form:
    """The fields of a posted form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise PageError(400, f"A form is expected, not {kind or 'nothing'}.")
    data = await _body(request)
    try:
        pairs = parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise PageError(
            400, "The form cannot be read: it is not UTF-8, or has too many fields."
        ) from None
    return Form(pairs)


async def _body(request: Request) -> bytes:
    """The body, with one time limit for all of it: slow clients hold nothing open."""
    data = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > _MOST_BYTES:
                    raise PageError(413, f"The form is larger than {_MOST_BYTES:,} bytes.")
    except TimeoutError:
        raise PageError(408, f"The form did not arrive within {_SECONDS:.0f} seconds.") from None
    except ClientDisconnect:
        raise PageError(400, "The form did not arrive completely.") from None
    return bytes(data)


async def handle(visit: Visit, request: Request) -> HtmlPage | Response:
    """Run the action of a form, or ask for confirmation first. The response is the page that the
    form was on, with a flash message."""
    if not visit.user.operates:
        raise PageError(403, f"{visit.user.name} may view, not act: this needs an operator.")
    visit = replace(visit, form=await sent_form(request))
    request.state.csrf.check(visit.form.get("csrf_token", ""))
    wanted = FORM_ACTIONS.get(request.path_params["verb"])
    if wanted is None:
        raise PageError(404, "There is no such action.")
    back = own_path(visit.form.get("back", "/"))
    if wanted.question is not None and visit.form.get("sure") != "yes":
        return await _asked(visit, wanted, back)
    action = await visit.dashboard.background_actions.run(
        wanted.verb, wanted.label, visit.user.name, back, wanted.handler(visit)
    )
    if (flash := action.flash) is None:
        return RedirectResponse(visit.url("/action", id=action.id), 303)
    if flash.page is not None:
        return flash.page
    response = RedirectResponse(visit.root + back, 303)
    set_flash(request, response, flash)
    return response


async def _asked(visit: Visit, wanted: FormAction, back: str) -> HtmlPage:
    question = wanted.question
    if callable(question):
        made = question(visit)
        question = await made if inspect.isawaitable(made) else made
    fields = [(name, value) for name, value in visit.form.multi_items() if name not in OURS]
    context = {"form_action": wanted, "question": question, "fields": fields, "back": back}
    return HtmlPage("confirm.html", wanted.label, context, live=None)


def own_path(text: str) -> str:
    """The path and query if they are our own; the overview for what may lead elsewhere."""
    is_own = text.startswith("/") and not text.startswith("//")
    return text if is_own and text.isprintable() and "\\" not in text else "/"
