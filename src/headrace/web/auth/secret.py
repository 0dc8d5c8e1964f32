"""The secret of a dashboard, shared by the processes that serve it."""

from __future__ import annotations

import hmac
import os
import secrets

from headrace.errors import ConfigError

SECRET = "HEADRACE_DASHBOARD_SECRET"
TOKEN = "HEADRACE_DASHBOARD_TOKEN"
SHORTEST = 16


def checked(what: str, value: object) -> str:
    """`value` if it is a long enough text."""
    if not isinstance(value, str) or len(value) < SHORTEST:
        # Not the text itself: it may be half of the right one.
        raise ConfigError(f"{what} must be a text of at least {SHORTEST} characters")
    return value


def key_of(secret: str | None) -> bytes:
    """The key made from the secret, of the argument or the variable; without one, a random key."""
    secret = secret if secret is not None else os.environ.get(SECRET) or None
    return secrets.token_bytes(32) if secret is None else checked("secret", secret).encode()


def token_of(token: str | None) -> str | None:
    """The token from the argument or the variable, or None."""
    token = token if token is not None else os.environ.get(TOKEN) or None
    return None if token is None else checked("token", token)


def derived(key: bytes, purpose: str) -> bytes:
    """A key for one purpose: a signature for one is invalid for another."""
    return hmac.digest(key, purpose.encode(), "sha256")


def local_key(token: str) -> bytes:
    """The key of a dashboard for this machine's user. Made from the token alone: sessions survive a
    restart."""
    return derived(token.encode("utf-8", "surrogatepass"), "local")


def own_host(token: str) -> str:
    """The host name of the dashboard with this token: it leads to this machine, and nobody else
    knows it. Cookies ignore ports, so those of 127.0.0.1 go to whatever listens there; those of
    this name go to this dashboard alone."""
    return f"{derived(local_key(token), 'host').hex()[:16]}.localhost"
