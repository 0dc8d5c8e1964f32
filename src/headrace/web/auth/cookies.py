"""Our cookies: what they are called here, and how they are sent."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def cookie(request: Request, purpose: str) -> str:
    """What we have set, or an empty text."""
    return request.cookies.get(_name(request, purpose), "")


def set_cookie(
    request: Request, response: Response, purpose: str, value: str, max_age: int | None = None
) -> None:
    """Kept from scripts and from other sites."""
    response.set_cookie(
        _name(request, purpose),
        value,
        max_age=max_age,
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite="strict",
    )


def forget_cookie(request: Request, response: Response, purpose: str) -> None:
    set_cookie(request, response, purpose, "", max_age=0)


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _name(request: Request, purpose: str) -> str:
    """Cookies know of no ports and ours are for all paths: dashboards beside each other must not
    take one another's. Only this very host can set one with the prefix, and only by https."""
    place = request.headers.get("host", "") + request.scope.get("root_path", "")
    mark = hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"{'__Host-' if _is_secure(request) else ''}headrace_{purpose}_{mark}"
