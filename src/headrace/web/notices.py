"""Sentences that the next page shows once: what came of a deed."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.web.cookies import cookie, forget_cookie, set_cookie

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from headrace.web.page import Page

_PURPOSE = "notice"
# Cookies end at 4 KB.
_MOST = 700


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    tone: str = "good"
    page: Page | None = None
    """What is shown at once, if that says more than the sentence."""


def leave_notice(request: Request, response: Response, notice: Notice) -> None:
    """Have the next page show it. In a cookie and not in the address: a link from elsewhere must
    not put words into our mouth."""
    text = notice.text if len(notice.text) <= _MOST else f"{notice.text[:_MOST]}…"
    data = json.dumps([text, notice.tone]).encode()
    set_cookie(request, response, _PURPOSE, base64.urlsafe_b64encode(data).decode(), max_age=60)


def found_notice(request: Request) -> Notice | None:
    try:
        text, tone = json.loads(base64.urlsafe_b64decode(cookie(request, _PURPOSE)))
    except ValueError:
        return None
    known = isinstance(text, str) and tone in ("good", "warn", "bad")
    return Notice(text, tone) if known else None


def forget_notice(request: Request, response: Response) -> None:
    forget_cookie(request, response, _PURPOSE)
