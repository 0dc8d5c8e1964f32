"""Flash messages: the next page shows once how an action ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.web.auth.cookies import cookie, forget_cookie, set_cookie

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from headrace.web.auth.signing import Signed
    from headrace.web.page import HtmlPage

_COOKIE = "flash"
# Browsers drop cookies above 4 KB.
_MOST = 700
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class FlashMessage:
    text: str
    tone: str = "good"
    page: HtmlPage | None = None
    """Shown at once, if it says more than the message."""


def set_flash(request: Request, response: Response, flash: FlashMessage) -> None:
    """Have the next page show a message.

    It is in a cookie, so that a link from elsewhere cannot show a message of its own. The cookie is
    signed, since other hosts of our domain can plant cookies.
    """
    text = flash.text if len(flash.text) <= _MOST else f"{flash.text[:_MOST]}…"
    set_cookie(request, response, _COOKIE, _signed(request).write(text, flash.tone), _SECONDS)


def get_flash(request: Request) -> FlashMessage | None:
    found = _signed(request).read(cookie(request, _COOKIE), _SECONDS)
    return None if found is None else FlashMessage(found[0], found[1])


def clear_flash(request: Request, response: Response) -> None:
    forget_cookie(request, response, _COOKIE)


def _signed(request: Request) -> Signed:
    signed: Signed = request.state.flash
    return signed
