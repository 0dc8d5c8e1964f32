"""The web dashboard: an ASGI app that shows and does what `app.admin` offers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.applications import Starlette

    from headrace.app import Headrace
    from headrace.web.auth.access import Auth
    from headrace.web.auth.users import Passwords, Role, User

__all__ = ["Passwords", "Role", "User", "dashboard"]


def dashboard(
    app: Headrace,
    *,
    auth: Auth | None = None,
    redact: Callable[[str, Any], Any] | None = None,
    insecure: bool = False,
    token: str | None = None,
    secret: str | None = None,
    origins: Collection[str] | None = None,
    title: str = "Headrace",
) -> Starlette:
    """An ASGI app that shows and controls the queues of `app`, to be served or mounted anywhere.

    `auth` is `Passwords`, or a function, sync or async, from a request to its `User`, or None to
    refuse it. Without `auth`, only requests from this machine that have the `token` get in; it is
    `$HEADRACE_DASHBOARD_TOKEN` by default, or else made up, and logged when it is first needed.
    `insecure` lets everyone in, as operator. Several processes with an `auth` function need the
    same `secret`, or `$HEADRACE_DASHBOARD_SECRET`. `origins` are the addresses at which people see
    the dashboard, if its proxy does not pass on the Host header. `redact(task, arguments)` returns
    what is shown of the arguments and results of jobs."""
    missing = [name for name in ("starlette", "jinja2", "itsdangerous") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the dashboard needs {' and '.join(missing)}: pip install 'headrace[dashboard]'"
        )
    if auth is not None and insecure:
        raise ConfigError("give auth, or insecure=True, not both")
    from headrace.web.auth.access import access_of
    from headrace.web.site import site

    access = access_of(auth, insecure=insecure, token=token, secret=secret)
    return site(app, access=access, redact=redact, origins=origins, title=title)


def __getattr__(name: str) -> Any:
    # `import headrace` comes by here: most programs have no dashboard, and need no hashes.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.web.auth import users

    return getattr(users, name)
