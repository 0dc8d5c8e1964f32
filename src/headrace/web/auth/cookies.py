"""The dashboard's cookies, and signed texts, which browsers keep in them and cannot change."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from itsdangerous import BadSignature, URLSafeTimedSerializer

from headrace.web.auth.secret import derived

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def cookie(request: Request, purpose: str) -> str:
    """The cookie's value, or an empty text."""
    return request.cookies.get(_name(request, purpose), "")


def set_cookie(
    request: Request, response: Response, purpose: str, value: str, max_age: int | None = None
) -> None:
    """Set a cookie that neither scripts nor other sites can read."""
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
    """Cookies ignore ports and ours are for all paths, so the name differs for dashboards on one
    host. The `__Host-` prefix: only this host can set it, and only by https."""
    place = request.headers.get("host", "") + request.scope.get("root_path", "")
    mark = hashlib.sha256(place.encode()).hexdigest()[:8]
    return f"{'__Host-' if _is_secure(request) else ''}headrace_{purpose}_{mark}"


class Signed:
    """Signs texts for one purpose, with a time stamp."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._serializer = URLSafeTimedSerializer(
            derived(key, purpose),
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def write(self, *texts: str) -> str:
        return str(self._serializer.dumps(list(texts)))

    def read(self, signed: str, seconds: float) -> list[str] | None:
        """The texts, if the signature is right and no older than `seconds`."""
        try:
            found = self._serializer.loads(signed, max_age=int(seconds))
        except (BadSignature, UnicodeError):
            return None
        return found if isinstance(found, list) else None
