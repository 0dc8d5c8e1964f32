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

    Args:
        app: The app whose store is shown.
        auth: `Passwords`, or a function, sync or async, from a request to its `User`, or None to
            refuse it. Only requests from this machine that have the `token` get in unless said.
        redact: What is shown of the arguments and results of jobs: a function of the task's name
            and the value, beside the app's `redact`.
        insecure: Whether everyone is let in, as operator.
        token: What lets requests in without `auth`; `$HEADRACE_DASHBOARD_TOKEN` unless said, or
            else made up, and logged when it is first needed.
        secret: Signs sessions; several processes need the same one. `$HEADRACE_DASHBOARD_SECRET`
            unless said, or else made up.
        origins: The addresses at which people see the dashboard, if its proxy does not pass on the
            Host header.
        title: The name that its pages show.
    """
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
