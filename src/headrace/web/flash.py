"""Sentences that the next page shows once: what came of an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.web.auth.cookies import cookie, forget_cookie, set_cookie

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from headrace.web.auth.signing import Signed
    from headrace.web.page import Page

_PURPOSE = "notice"
# Cookies end at 4 KB.
_MOST = 700
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    tone: str = "good"
    page: Page | None = None
    """What is shown at once, if that says more than the sentence."""


def leave_notice(request: Request, response: Response, notice: Notice) -> None:
    """Have the next page show it. In a cookie and not in the address: a link from elsewhere must
    not put words into our mouth. Signed: nor must another host of our domain, which can plant
    cookies."""
    text = notice.text if len(notice.text) <= _MOST else f"{notice.text[:_MOST]}…"
    set_cookie(request, response, _PURPOSE, _signed(request).write(text, notice.tone), _SECONDS)


def found_notice(request: Request) -> Notice | None:
    said = _signed(request).read(cookie(request, _PURPOSE), _SECONDS)
    return None if said is None else Notice(said[0], said[1])


def forget_notice(request: Request, response: Response) -> None:
    forget_cookie(request, response, _PURPOSE)


def _signed(request: Request) -> Signed:
    notices: Signed = request.state.notices
    return notices
