"""CSRF tokens: whether a form that comes back is one that we gave to this user."""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

from headrace.web.auth.cookies import cookie, set_cookie
from headrace.web.errors import PageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

VISITOR, SESSION = "visitor", "session"


class CsrfToken:
    """The token of one visitor, for one user in one session. Making one takes the server's key:
    someone who can plant cookies, as other hosts of the same domain can, cannot make one."""

    def __init__(self, request: Request, user: str, key: bytes) -> None:
        self._request = request
        self._visitor = cookie(request, VISITOR)
        self._is_new = len(self._visitor) < 20
        if self._is_new:
            self._visitor = secrets.token_urlsafe(24)
        text = "\n".join((self._visitor, cookie(request, SESSION), user))
        self.value = hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def set_cookie(self, response: Response) -> None:
        """Set the visitor's cookie if there is none yet."""
        if self._is_new:
            set_cookie(self._request, response, VISITOR, self._visitor)

    def check(self, token: str) -> None:
        """Raise `PageError` for a form that is not ours."""
        given = token.encode("utf-8", "replace")
        if self._is_new or not hmac.compare_digest(given, self.value.encode()):
            raise PageError(
                403,
                "The form is not one of yours, or is older than your session, and nothing was "
                "done: open the page again and repeat it. Cookies are needed for this; and if "
                "several processes serve the dashboard, they need the same secret.",
            )
