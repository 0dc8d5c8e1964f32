"""The web dashboard: an ASGI app that shows what `app.admin` tells, and does what it can do."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError
from headrace.web.people import Passwords, Role, User

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from headrace.app import Headrace
    from headrace.web.access import Auth

__all__ = ["Passwords", "Role", "User", "dashboard"]


def dashboard(
    app: Headrace,
    *,
    auth: Auth | None = None,
    redact: Callable[[str, Any], Any] | None = None,
    insecure: bool = False,
    title: str = "Headrace",
) -> Starlette:
    """An ASGI app that shows and steers the queues of `app`, to be served or mounted anywhere.

    Without `auth` it serves only those who come from this machine. `auth` is a function that is
    given each request and says who asks (`User`, or None to refuse), sync or async; or `Passwords`.
    `insecure` serves everyone, as operator. `redact(task, arguments)` says what is shown of the
    arguments and results of jobs."""
    missing = [name for name in ("starlette", "jinja2") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the dashboard needs {' and '.join(missing)}: pip install 'headrace[dashboard]'"
        )
    if auth is not None and insecure:
        raise ConfigError("give auth, or insecure=True, not both")
    from headrace.web.site import site

    return site(app, auth=auth, redact=redact, insecure=insecure, title=title)
