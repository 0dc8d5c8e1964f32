"""What visitors keep for us, and cannot change."""

from __future__ import annotations

import hashlib

from itsdangerous import BadSignature, URLSafeTimedSerializer

from headrace.web.auth.secret import derived


class Signed:
    """Texts that visitors keep for us, signed for one purpose: who changes one has nothing."""

    def __init__(self, key: bytes, purpose: str) -> None:
        self._serializer = URLSafeTimedSerializer(
            derived(key, purpose),
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def write(self, *texts: str) -> str:
        return str(self._serializer.dumps(list(texts)))

    def read(self, signed: str, seconds: float) -> list[str] | None:
        """What was signed, if it was within that time."""
        try:
            found = self._serializer.loads(signed, max_age=int(seconds))
        except (BadSignature, UnicodeError):
            return None
        return found if isinstance(found, list) else None
