"""Names and passwords: a form and a session for people, HTTP Basic for programs."""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import math
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.web.auth.cookies import Signed, cookie
from headrace.web.auth.csrf import SESSION
from headrace.web.auth.throttle import Throttle
from headrace.web.page import LoginRequired, PageError

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.web.auth.users import Passwords, User

log = logging.getLogger("headrace.web")

SESSION_SECONDS = 12 * 3600
DEVICE = "device"
DEVICE_SECONDS = 365 * 86_400
# Each check takes 16 MB and some CPU time: checks wait for one another.
_MOST_CHECKS = 50
_KNOWN_PASSWORDS = 100
_QUIET = 10.0


class _CheckQueue:
    """Checks passwords one at a time, in a thread."""

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "headrace-password")

    async def check(self, name: str, password: str) -> User | None:
        if self._waiting >= _MOST_CHECKS:
            raise PageError(429, "Too many logins at once: try again in a moment.", retry_after=5)
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, self._passwords.check, name, password)
        finally:
            self._waiting -= 1


class PasswordAccess:
    """Lets in users who have logged in, or who send a name and a password with HTTP Basic."""

    has_login = True

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self.key = passwords.session_key
        self._sessions = Signed(self.key, "session")
        self._devices = Signed(self.key, "device")
        self._ended: dict[str, float] = {}
        self._known: dict[bytes, str] = {}
        self._quiet_until = 0.0
        self._throttle = Throttle(lambda name: passwords.named(name) is not None)
        # Known browsers do not wait behind strangers who guess.
        self._check_queues = {known: _CheckQueue(passwords) for known in (True, False)}

    async def authenticate(self, request: Request) -> User:
        user = self.session_user(cookie(request, SESSION)) or await self._basic(request)
        if user is None:
            raise LoginRequired
        return user

    def is_valid(self, request: Request) -> bool:
        # HTTP Basic has no session that could end.
        given = "authorization" in request.headers
        return given or self.session_user(cookie(request, SESSION)) is not None

    async def check(self, request: Request, name: str, password: str) -> User | None:
        """The user, if the password is right. After too many wrong ones for that name or from that
        address, `PageError` whatever the password, unless the browser has logged in before."""
        device = self._device(request, name)
        address = request.client.host if request.client else ""
        guess = self._throttle.guess(name, address, device)
        if guess.wait:
            self._log_refusal(name, address)
            raise PageError(
                429,
                "Too many wrong passwords: try again in a while, or with a browser that has logged "
                "in here before.",
                retry_after=math.ceil(guess.wait),
            )
        user = await self._check_queues[device is not None].check(name, password)
        if user is None:
            log.warning(
                "a wrong name or password was given, for %r from %s",
                name[:100],
                address,
                extra={"user": name[:100], "client": address},
            )
        else:
            guess.was_right()
        return user

    def _log_refusal(self, name: str, address: str) -> None:
        """Log it, at most every `_QUIET` seconds: guesses must not fill the log."""
        if time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + _QUIET
            log.warning(
                "passwords for %r from %s are not checked: too many were wrong",
                *(name[:100], address),
                extra={"user": name[:100], "client": address},
            )

    def session(self, user: User) -> str:
        """The session cookie of a user who has just logged in."""
        return self._sessions.write(user.name, secrets.token_hex(8))

    def session_user(self, session: str) -> User | None:
        said = self._sessions.read(session, SESSION_SECONDS)
        return None if said is None or session in self._ended else self._passwords.named(said[0])

    def device(self, user: User) -> str:
        """The cookie that marks a browser in which the user has logged in."""
        return self._devices.write(user.name, secrets.token_hex(8))

    def end(self, session: str) -> None:
        """End a session in this process. Other processes with the same secret accept its cookie
        until it expires."""
        now = time.time()
        self._ended = {ended: until for ended, until in self._ended.items() if until > now}
        if self.session_user(session) is not None:
            self._ended[session] = now + SESSION_SECONDS

    def _device(self, request: Request, name: str) -> str | None:
        said = self._devices.read(cookie(request, DEVICE), DEVICE_SECONDS)
        return said[1] if said is not None and said[0] == name else None

    async def _basic(self, request: Request) -> User | None:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(sent, validate=True).decode().partition(":")
        except ValueError:
            return None
        # Programs send it with each request: a password that was right is remembered.
        mark = hmac.digest(self.key, f"{name}\n{password}".encode(), "sha256")
        if mark in self._known:
            return self._passwords.named(self._known[mark])
        user = await self.check(request, name, password)
        if user is not None and len(self._known) < _KNOWN_PASSWORDS:
            self._known[mark] = name
        return user
