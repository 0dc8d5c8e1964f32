"""Users of the dashboard, their roles and passwords."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headrace.errors import ConfigError
from headrace.web.auth.secret import key_of


class Role(StrEnum):
    """What a user may do: view, or also act."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the dashboard. The audit log records actions under `name`."""

    name: str
    """The audit log records actions under it."""
    role: Role = Role.OPERATOR
    """What the user may do."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "role", Role(self.role))
        except ValueError:
            raise ConfigError(
                f"user {self.name!r} has the role {self.role!r}: say viewer or operator"
            ) from None

    @property
    def operates(self) -> bool:
        """Whether the user may act."""
        return self.role is Role.OPERATOR


MIN_PASSWORD = 8
# 16 MB and some 40 ms for each guess.
_N, _R, _P = 2**14, 8, 1


class Passwords:
    """Users with passwords. Only hashes are kept.

    Args:
        users: Each as `name:password` or `name:password:viewer`. A password has 8 characters or
            more. It may contain colons, unless a role follows the last one.
        secret: Signs sessions: processes with the same one share them. Sessions end with the
            process unless said.
    """

    def __init__(self, users: Iterable[str], *, secret: str | None = None) -> None:
        users = list(users)
        key = key_of(secret)
        # Includes the passwords: when one changes, all sessions end.
        self.session_key = hmac.digest(key, "\n".join(users).encode(), "sha256")
        self._salt = secrets.token_bytes(16)
        self._users: dict[str, tuple[User, bytes]] = {}
        for text in users:
            user, password = _parsed(text)
            if user.name in self._users:
                raise ConfigError(f"user {user.name!r} is given twice")
            self._users[user.name] = user, self._hashed(password)
        if not self._users:
            raise ConfigError("no users are given: say name:password for each")
        self._nobody = User(""), secrets.token_bytes(32)

    def check(self, name: str, password: str) -> User | None:
        """The user, if the password is right. Slow, and equally slow for unknown names: call it in
        a thread."""
        user, wanted = self._users.get(name, self._nobody)
        fits = hmac.compare_digest(self._hashed(password), wanted)
        return user if fits and user.name else None

    def named(self, name: str) -> User | None:
        """The user of that name, if there is one."""
        found = self._users.get(name)
        return found[0] if found else None

    def _hashed(self, password: str) -> bytes:
        # Someone may send a lone surrogate.
        data = password.encode("utf-8", "surrogatepass")
        return hashlib.scrypt(data, salt=self._salt, n=_N, r=_R, p=_P, dklen=32)


def _parsed(text: str) -> tuple[User, str]:
    name, colon, password = text.partition(":")
    head, _, last = password.rpartition(":")
    role = Role.OPERATOR
    if head and last in tuple(Role):
        password, role = head, Role(last)
    if not colon or not name or not password:
        # Not the text itself: it holds a password.
        raise ConfigError("a user is given as name:password or name:password:viewer")
    if len(password) < MIN_PASSWORD:
        raise ConfigError(
            f"the password of user {name!r} has fewer than {MIN_PASSWORD} characters: choose a "
            "longer one"
        )
    return User(name, role), password
