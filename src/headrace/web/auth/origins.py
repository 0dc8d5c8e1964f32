"""Check the origin of requests that change something."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from headrace.errors import ConfigError
from headrace.web.errors import PageError

if TYPE_CHECKING:
    from starlette.requests import Request

_PORTS = {"http": 80, "https": 443}
_CHANGES_NOTHING = ("GET", "HEAD", "OPTIONS")


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
    where a form comes from, and no page can forge it: `Origin`, `Referer` in old browsers, and with
    https also `Sec-Fetch-Site`."""
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
        "in front has to pass on the Host header, or the dashboard be told its origins.",
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
