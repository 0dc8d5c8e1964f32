"""Who may come in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.errors import ConfigError
from headrace.web.page import Refusal
from headrace.web.people import Passwords, User

if TYPE_CHECKING:
    from starlette.requests import Request

Hook: TypeAlias = "Callable[[Request], User | Awaitable[User | None] | None]"
Auth: TypeAlias = "Hook | Passwords"

# Whoever sends one of these is a proxy, and speaks for someone elsewhere.
_FORWARDING = (
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
)
_FORWARDING_PREFIX = "x-forwarded-"


class LoginWanted(Exception):
    """Nobody is known to be there: a person may log in, a program may send a password."""


class Access(Protocol):
    """How the dashboard knows who asks."""

    has_login: bool

    async def admit(self, request: Request) -> User:
        """The user who asks. Raises `Refusal`, or `LoginWanted`."""
        ...

    def holds(self, request: Request) -> bool:
        """Whether someone who was let in may stay, as far as can be told at no cost."""
        ...


class _Lasting:
    """Nobody logs out: who is in may stay for as long as an answer takes."""

    has_login = False

    def holds(self, request: Request) -> bool:
        return True


class LocalAccess(_Lasting):
    """Lets in who comes from this very machine, as operator. The name in the address must be this
    machine's too: a page elsewhere may have its own name point here."""

    async def admit(self, request: Request) -> User:
        client = request.client.host if request.client else ""
        if not _is_loopback(client):
            raise Refusal(403, f"This dashboard serves only this machine, not {client}. {_ADVICE}")
        for name in request.headers:
            if name in _FORWARDING or name.startswith(_FORWARDING_PREFIX):
                raise Refusal(403, f"This came through a proxy ({name} is set). {_ADVICE}")
        if not _is_local_name(request.headers.get("host", "")):
            raise Refusal(
                403,
                "This dashboard answers to localhost or 127.0.0.1, not to the name in the address. "
                f"{_ADVICE}",
            )
        origin = request.headers.get("origin")
        if origin is not None and not _is_local_name(origin.partition("://")[2]):
            raise Refusal(403, f"This came from a page elsewhere, and was not done. {_ADVICE}")
        return User("local")


_ADVICE = (
    "To serve others, give it users: headrace dashboard --auth name:password, or "
    "headrace.dashboard(app, auth=…)."
)


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_local_name(host: str) -> bool:
    name, _, port = host.rpartition(":")
    if not name or not port.isdecimal():
        name = host
    name = name.removeprefix("[").removesuffix("]").lower()
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


class OpenAccess(_Lasting):
    """Lets in everyone, as operator: for those who said so."""

    async def admit(self, request: Request) -> User:
        return User("anyone")


class HookAccess(_Lasting):
    """Lets in whom the app's own function knows."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    async def admit(self, request: Request) -> User:
        answer = self._hook(request)
        user = await answer if inspect.isawaitable(answer) else answer
        if user is None:
            raise Refusal(403, "You may not see this dashboard: log in where you usually do.")
        if not isinstance(user, User):
            raise TypeError(
                f"the auth hook of the dashboard gave {type(user).__name__}, not a User or None"
            )
        if not user.name.strip():
            raise TypeError("the auth hook of the dashboard gave a User without a name")
        return user


def access_of(auth: Auth | None, *, insecure: bool) -> Access:
    """How those are known who come, as `headrace.dashboard` was told."""
    if isinstance(auth, Passwords):
        from headrace.web.login import LoginAccess

        return LoginAccess(auth)
    if auth is not None:
        if not callable(auth):
            raise ConfigError(f"auth is a function of a request, or Passwords, not {auth!r}")
        return HookAccess(auth)
    return OpenAccess() if insecure else LocalAccess()
