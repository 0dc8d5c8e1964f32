"""CSRF: a form that comes back must be one that we gave to this user, on a page of ours."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from headrace.errors import ConfigError
from headrace.web.auth.cookies import cookie, set_cookie
from headrace.web.page import PageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

VISITOR, SESSION = "visitor", "session"
_PORTS = {"http": 80, "https": 443}
_CHANGES_NOTHING = ("GET", "HEAD", "OPTIONS")


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


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int


def origins_of(given: Collection[str] | None) -> frozenset[Origin]:
    """The `origins` argument of `headrace.dashboard`, parsed."""
    texts: list[object] = [] if isinstance(given, str) else list(given or ())
    found = [_parsed(text) if isinstance(text, str) else None for text in texts]
    if isinstance(given, str) or None in found:
        raise ConfigError(
            f"origins is a list of addresses such as ['https://shop.example'], not {given!r}"
        )
    return frozenset(origin for origin in found if origin is not None)


def check_origin(request: Request, known: Collection[Origin]) -> None:
    """Raise `PageError` for a form that another site may have made the browser send. Browsers say
    where a form comes from, and no page can forge that: in `Origin`, in `Referer` if they are old,
    and with https also in `Sec-Fetch-Site`."""
    if request.method in _CHANGES_NOTHING:
        return
    headers = request.headers
    site = headers.get("sec-fetch-site")
    if site not in (None, "same-origin"):
        raise _elsewhere(f"Sec-Fetch-Site is {site}")
    said = headers.get("origin")
    name = "Origin" if said is not None else "Referer"
    said = said if said is not None else headers.get("referer")
    if said is None:
        if site is None:
            raise PageError(
                403,
                "This does not say where it comes from, and was not done: a program has to send "
                "Origin, with the address of the dashboard.",
            )
        return
    origin = _parsed(said, with_path=name == "Referer")
    if origin is None or (origin not in known and not _is_ours(request, origin)):
        raise _elsewhere(f"{name} is not the address of this dashboard")


def _elsewhere(why: str) -> PageError:
    return PageError(
        403,
        f"This came from another site, and was not done. {why}: if that site is yours, the proxy "
        "in front has to pass on the Host header, or `origins` has to name it.",
    )


def _is_ours(request: Request, origin: Origin) -> bool:
    """Whether the origin is the address that this request went to. TLS may end at a proxy: an https
    page may send to http. Not the other way round: an attacker on the network can change any page
    that comes by http."""
    if request.url.scheme == "https" and origin.scheme != "https":
        return False
    return any(_parsed(f"{origin.scheme}://{host}") == origin for host in _hosts(request))


def _hosts(request: Request) -> Iterator[str]:
    """The host names of the request. Proxy headers are trusted here: no page elsewhere can make a
    browser send them."""
    yield request.headers.get("host", "")
    for value in request.headers.getlist("x-forwarded-host"):
        yield from (each.strip() for each in value.split(","))
    for value in request.headers.getlist("forwarded"):
        for part in value.replace(",", ";").split(";"):
            name, _, host = part.strip().partition("=")
            if name.lower() == "host":
                yield host.strip('"')


def _parsed(text: str, *, with_path: bool = False) -> Origin | None:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not host or "@" in parts.netloc:
        return None
    if not with_path and (parts.path or parts.query or parts.fragment):
        return None
    return Origin(scheme, host.lower().rstrip("."), _PORTS[scheme] if port is None else port)
