"""Whether a form that comes back is one that we gave to this person."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

from headrace.web.auth.cookies import cookie, set_cookie
from headrace.web.page import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

VISITOR, SESSION = "visitor", "session"


class Seal:
    """The token of one visitor, for one user in one session. It takes the server's key to make one:
    whoever can plant cookies, as other hosts of the same domain can, cannot."""

    def __init__(self, request: Request, user: str, key: bytes) -> None:
        self._request = request
        self._visitor = cookie(request, VISITOR)
        self._is_new = len(self._visitor) < 20
        if self._is_new:
            self._visitor = secrets.token_urlsafe(24)
        said = "\n".join((self._visitor, cookie(request, SESSION), user))
        self.token = hmac.digest(key, said.encode("utf-8", "surrogatepass"), "sha256").hex()

    def leave(self, response: Response) -> None:
        """Let the visitor be known again."""
        if self._is_new:
            set_cookie(self._request, response, VISITOR, self._visitor)

    def check(self, token: str) -> None:
        """Refuse a form that is none of ours."""
        given = token.encode("utf-8", "replace")
        if self._is_new or not hmac.compare_digest(given, self.token.encode()):
            raise Refusal(
                403,
                "The form is not one of yours, or is older than your session, and nothing was "
                "done: open the page again and repeat it. Cookies are needed for this; and if "
                "several processes serve the dashboard, they need the same secret.",
            )
