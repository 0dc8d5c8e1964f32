"""Whether a form that comes back is one that we gave to this person."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from headrace.web.cookies import cookie, set_cookie
from headrace.web.page import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

VISITOR, SESSION = "visitor", "session"
_TRUSTED = ("same-origin",)


class Seal:
    """The token of one visitor, for one user in one session. Its key is a cookie that no other site
    can read or send along, so it holds in all processes that serve the dashboard."""

    def __init__(self, request: Request, user: str) -> None:
        self._request = request
        self._visitor = cookie(request, VISITOR)
        self._is_new = len(self._visitor) < 20
        if self._is_new:
            self._visitor = secrets.token_urlsafe(24)
        said = f"{user}\n{cookie(request, SESSION)}".encode("utf-8", "surrogatepass")
        self.token = hmac.new(self._visitor.encode(), said, hashlib.sha256).hexdigest()

    def leave(self, response: Response) -> None:
        """Let the visitor be known again."""
        if self._is_new:
            set_cookie(self._request, response, VISITOR, self._visitor)

    def check(self, token: str) -> None:
        """Refuse what another site may have had the browser send."""
        origin = self._request.headers.get("sec-fetch-site")
        if origin is not None and origin not in _TRUSTED:
            raise Refusal(403, "This came from another site, and was not done.")
        given = token.encode("utf-8", "replace")
        if self._is_new or not hmac.compare_digest(given, self.token.encode()):
            raise Refusal(
                403,
                "The form is not one of yours, or is older than your session, and nothing was "
                "done: open the page again and repeat it. Cookies are needed for this.",
            )
