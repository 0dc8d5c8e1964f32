"""Signed texts: browsers keep them in cookies and cannot change them."""

from __future__ import annotations

import hashlib

from itsdangerous import BadSignature, URLSafeTimedSerializer

from headrace.web.auth.secret import derived


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
