"""Access policies: who gets in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.errors import ConfigError
from headrace.web.auth.local_access import LocalAccess
from headrace.web.auth.secret import key_of
from headrace.web.auth.users import Passwords, User
from headrace.web.page import PageError

if TYPE_CHECKING:
    from starlette.requests import Request

Hook: TypeAlias = "Callable[[Request], User | Awaitable[User | None] | None]"
Auth: TypeAlias = "Hook | Passwords"


class Access(Protocol):
    """How the dashboard authenticates requests."""

    has_login: bool
    """Whether users can log out."""
    key: bytes
    """A secret that all processes of this dashboard share."""

    async def authenticate(self, request: Request) -> User:
        """The user who asks. Raises `PageError`, or `LoginRequired`."""
        ...

    def is_valid(self, request: Request) -> bool:
        """Whether an authenticated user still is, as far as that costs nothing to check."""
        ...


class _NoLogout:
    """Policies without logout: a user stays authenticated for the whole response."""

    has_login = False

    def __init__(self, secret: str | None) -> None:
        self.key = key_of(secret)

    def is_valid(self, request: Request) -> bool:
        return True


class OpenAccess(_NoLogout):
    """Lets in everyone, as operator: `insecure=True`."""

    async def authenticate(self, request: Request) -> User:
        return User("anyone")


class HookAccess(_NoLogout):
    """Lets in the users that the app's own function returns."""

    def __init__(self, hook: Hook, secret: str | None) -> None:
        super().__init__(secret)
        self._hook = hook

    async def authenticate(self, request: Request) -> User:
        answer = self._hook(request)
        user = await answer if inspect.isawaitable(answer) else answer
        if user is None:
            raise PageError(403, "You may not see this dashboard: log in where you usually do.")
        if not isinstance(user, User):
            raise TypeError(
                f"the auth hook of the dashboard returned {type(user).__name__}, not a User or None"
            )
        if not user.name.strip():
            raise TypeError("the auth hook of the dashboard returned a User without a name")
        return user


def access_of(
    auth: Auth | None, *, insecure: bool, token: str | None, secret: str | None
) -> Access:
    """The access policy made from the arguments of `headrace.dashboard`."""
    if token is not None and (auth is not None or insecure):
        raise ConfigError("token is only for a dashboard without auth and insecure: leave it out")
    if isinstance(auth, Passwords):
        from headrace.web.auth.password_access import PasswordAccess

        if secret is not None:
            raise ConfigError("give secret to Passwords, which sign sessions with it")
        return PasswordAccess(auth)
    if auth is not None:
        if not callable(auth):
            raise ConfigError(f"auth is a function of a request, or Passwords, not {auth!r}")
        return HookAccess(auth, secret)
    if insecure:
        return OpenAccess(secret)
    if secret is not None:
        raise ConfigError("secret is of no use without auth: processes share a token instead")
    return LocalAccess(token)
