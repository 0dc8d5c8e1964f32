"""Names and passwords: a form and a session for people, HTTP Basic for programs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from headrace.web.access import LoginWanted
from headrace.web.cookies import cookie
from headrace.web.forgery import SESSION
from headrace.web.page import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.web.people import Passwords, User

log = logging.getLogger("headrace.web")

SESSION_SECONDS = 12 * 3600
# Each check takes 16 MB and a core for a while: guesses wait for each other.
_CHECKS_AT_ONCE = 2
_CHECKS_IN_LINE = 50
_KNOWN_PASSWORDS = 100


class LoginAccess:
    """Lets in who has logged in, or sends a name and a password along."""

    has_login = True

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self._key = passwords.session_key
        self._ended: dict[str, float] = {}
        self._known: dict[bytes, str] = {}
        self._checking = 0
        self._checkers = ThreadPoolExecutor(_CHECKS_AT_ONCE, "headrace-password")

    async def admit(self, request: Request) -> User:
        user = self.in_session(cookie(request, SESSION)) or await self._basic(request)
        if user is None:
            raise LoginWanted
        return user

    def holds(self, request: Request) -> bool:
        # Who sends a password along has no session that could be over.
        given = "authorization" in request.headers
        return given or self.in_session(cookie(request, SESSION)) is not None

    async def check(self, name: str, password: str) -> User | None:
        """The user, if the password is theirs. Refused if many others are being checked."""
        if self._checking >= _CHECKS_IN_LINE:
            raise Refusal(429, "Too many want to log in at once: try again in a moment.")
        self._checking += 1
        try:
            loop = asyncio.get_running_loop()
            user = await loop.run_in_executor(self._checkers, self._passwords.check, name, password)
        finally:
            self._checking -= 1
        if user is None:
            log.warning("a wrong name or password was given, for %r", name[:100])
        return user

    def session(self, user: User) -> str:
        """What the cookie of someone says who has just logged in."""
        said = [user.name, time.time() + SESSION_SECONDS, secrets.token_hex(8)]
        body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode()
        return f"{body}.{self._signature(body)}"

    def in_session(self, session: str) -> User | None:
        body, _, signature = session.partition(".")
        if not body or not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return None
        name, until, _ = json.loads(base64.urlsafe_b64decode(body))
        if until < time.time() or body in self._ended:
            return None
        return self._passwords.named(name)

    def end(self, session: str) -> None:
        """Have a session hold no longer in this process, whoever has its cookie. Others with the
        same secret take that cookie until it runs out."""
        now = time.time()
        self._ended = {body: until for body, until in self._ended.items() if until > now}
        if self.in_session(session) is not None:
            self._ended[session.partition(".")[0]] = now + SESSION_SECONDS

    def _signature(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()

    async def _basic(self, request: Request) -> User | None:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(sent, validate=True).decode().partition(":")
        except ValueError:
            return None
        # A program sends it with each request: one that was right is known again for less.
        mark = hmac.digest(self._key, f"{name}\n{password}".encode(), "sha256")
        if mark in self._known:
            return self._passwords.named(self._known[mark])
        user = await self.check(name, password)
        if user is not None and len(self._known) < _KNOWN_PASSWORDS:
            self._known[mark] = name
        return user
