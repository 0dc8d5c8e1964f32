"""Requests that change something, numbered so that the server applies each once.

A request whose connection broke may reach the server long after its own repeat: the kernel goes on
sending what a closed socket had taken. So each has an id, a session and a number, which is the same
for all its tries. Scripts remember per session the last number that they applied and what they
answered; of a request that was applied before they give that answer, and change nothing.
"""

from __future__ import annotations

import secrets
import time
from threading import Lock

from headrace.store.values import IdempotencyKey

REMEMBERED = 1000
"""Seconds for which scripts remember a session; longer than TCP keeps trying."""
_MOST = 1000


class RequestSession:
    """Numbers requests that are made one after the other. A request that was not answered properly
    ends the session: it may still be repeated, and then must be its last."""

    __slots__ = ("_id", "_number")

    def __init__(self) -> None:
        self._id = secrets.token_urlsafe(9)
        self._number = 0

    def next_id(self) -> str:
        self._number += 1
        return f"{self._id} {self._number}"


class Numbered:
    """A request to a script, with the ids of others that it makes void."""

    __slots__ = ("_request", "_void")

    def __init__(self, request: IdempotencyKey, void: tuple[str, ...]) -> None:
        self._request = request
        self._void = void

    def argument(self, session: RequestSession) -> str:
        """The script's REQUEST argument; this session numbers the first try."""
        request = self._request
        request.id = request.id or session.next_id()
        return " ".join((request.id, *self._void)) if self._void else request.id


class Abandoned:
    """Requests that were given up, and may still arrive at the server. The next request about the
    same queue makes them void, so that they are applied before it or never."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, float]] = {}
        # Event loops of several threads share a store.
        self._lock = Lock()

    def add(self, request: IdempotencyKey) -> None:
        if not request.id:
            return
        with self._lock:
            known = self._of.setdefault(request.scope, {})
            known[request.id] = time.monotonic() + REMEMBERED
            if len(known) > _MOST:
                known.pop(next(iter(known)))

    def renumber(self, request: IdempotencyKey) -> None:
        """Nothing was applied under its number; its next try gets another."""
        self.add(request)
        request.id = ""

    def of(self, scope: str) -> tuple[str, ...]:
        """The ids of lost requests about one queue."""
        if scope not in self._of:
            return ()
        with self._lock:
            return tuple(self._of.get(scope, ()))

    def voided(self, scope: str, ids: tuple[str, ...]) -> None:
        """Drop these, which are void now, and all that are too old to arrive."""
        now = time.monotonic()
        with self._lock:
            known = self._of.get(scope, {})
            for id in (*ids, *(id for id, until in tuple(known.items()) if until < now)):
                known.pop(id, None)
            if not known:
                self._of.pop(scope, None)
