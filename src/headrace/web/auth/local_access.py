"""Access only for the user who runs the dashboard, on this machine."""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.web.auth.cookies import Signed, cookie
from headrace.web.auth.csrf import SESSION
from headrace.web.auth.secret import local_key, own_host, token_of
from headrace.web.auth.users import User
from headrace.web.page import LoginRequired, PageError

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger("headrace.web")

SESSION_SECONDS = 30 * 86_400
# Under a name whose cookies go to every server of this machine, also to one of another account.
SHARED_SESSION_SECONDS = 15 * 60
# Headers that proxies set: the request may come from elsewhere.
_FORWARDING = re.compile(
    r"forward|^via$|(real|client|connecting|remote|source|origin(ating)?)-?(ip|addr|host|user)\b"
    r"|^x-(original|rewrite|proxy|proxied|envoy|amzn?|azure|appengine|cluster|varnish|host$|scheme$"
    r"|url-scheme|server-name|remote|replaced|ssl|https$|tls|arr|gfe|cloud)"
    r"|^(cf|fly|fastly|akamai|proxy|front-end)-|^cdn-loop$|^max-forwards$|^ssl-client|^early-data$"
)
_ADVICE = (
    "To serve others, give it users: headrace dashboard --auth name:password, or "
    "headrace.dashboard(app, auth=…)."
)


class LocalAccess:
    """Lets in requests from this machine that have the token, as operator. The Host header must be
    this machine's too: any web site can point its own name here (DNS rebinding)."""

    has_login = False

    def __init__(self, token: str | None) -> None:
        chosen = token_of(token)
        self.token = secrets.token_urlsafe(24) if chosen is None else chosen
        self.key = local_key(self.token)
        self._own_host = own_host(self.token)
        self._sessions = Signed(self.key, "session")
        self._is_shown = chosen is not None

    async def authenticate(self, request: Request) -> User:
        self.check_local(request)
        # A token in the address is removed by a redirect first, also within a session.
        if "token" in request.query_params or not self.is_valid(request):
            self._log_token(request)
            raise LoginRequired
        return User("local")

    def is_valid(self, request: Request) -> bool:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(sent.strip()):
            return True
        found = self._sessions.read(cookie(request, SESSION), self.session_seconds(request))
        # A cookie that was sent to another server is of no use under the own name.
        return found is not None and found[1:] == [_host_of(request)]

    def is_token(self, token: str) -> bool:
        """Whether that is the token."""
        given, wanted = (each.encode("utf-8", "surrogatepass") for each in (token, self.token))
        return hmac.compare_digest(given, wanted)

    def session(self, request: Request) -> str:
        """The session cookie for a user who gave the token: for the host name they came by."""
        return self._sessions.write(secrets.token_hex(8), _host_of(request))

    def session_seconds(self, request: Request) -> int:
        """How long a session lasts under the host name of this request. By https a cookie goes only
        to servers whose certificate the browser trusts for that name."""
        is_own = _host_of(request) == self._own_host or request.url.scheme == "https"
        return SESSION_SECONDS if is_own else SHARED_SESSION_SECONDS

    def check_local(self, request: Request) -> None:
        """Raise `PageError` if the request is, or may be, from elsewhere."""
        client = request.client.host if request.client else ""
        if not is_loopback(client):
            raise PageError(
                403, f"This dashboard serves only this machine, not {client}. {_ADVICE}"
            )
        for name in request.headers:
            if _FORWARDING.search(name):
                raise PageError(403, f"This came through a proxy ({name} is set). {_ADVICE}")
        if request.scope.get("http_version") == "1.0":
            raise PageError(403, f"This came through a proxy (it is HTTP/1.0). {_ADVICE}")
        if not _is_local_name(request.headers.get("host", "")):
            raise PageError(
                403,
                "This dashboard answers to localhost or 127.0.0.1, not to the name in the address. "
                f"{_ADVICE}",
            )
        origin = request.headers.get("origin")
        if origin is not None and not _is_local_name(origin.partition("://")[2]):
            raise PageError(403, f"This came from another site, and was not done. {_ADVICE}")

    def mark_shown(self) -> None:
        """The user has seen the token: do not log it."""
        self._is_shown = True

    def _log_token(self, request: Request) -> None:
        """Log the address with the token, once, unless someone has chosen or printed it. The log
        belongs to the same user."""
        if not self._is_shown:
            self._is_shown = True
            root = request.scope.get("root_path", "").rstrip("/")
            host = request.headers.get("host", "")
            log.warning(
                "the dashboard needs its token: open %s://%s%s/?token=%s (or choose a token "
                "with HEADRACE_DASHBOARD_TOKEN)",
                *(request.url.scheme, host, root, quote(self.token, safe="")),
                extra={"host": host},
            )


def is_loopback(host: str) -> bool:
    """Whether that is an address of this very machine."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _host_of(request: Request) -> str:
    """The name in the Host header, without the port."""
    return _name_in(request.headers.get("host", ""))


def _name_in(host: str) -> str:
    name, _, port = host.rpartition(":")
    if not name or not port.isdecimal():
        name = host
    return name.removeprefix("[").removesuffix("]").lower()


def _is_local_name(host: str) -> bool:
    name = _name_in(host)
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)
