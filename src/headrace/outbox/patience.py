"""Destinations that cannot take more at the moment, and how long each is left in peace."""

from __future__ import annotations

import logging
import time

from headrace.errors import HeadraceError

log = logging.getLogger("headrace.outbox")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Patience:
    """All rows of a destination wait, not only those that were tried: they are in order."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._pause: dict[str, float] = {}

    def held(self) -> list[str]:
        """Whom not to send to now."""
        now = time.monotonic()
        return [name for name, until in self._until.items() if until > now]

    def hold(self, destination: str, error: HeadraceError) -> None:
        pause = self._pause.get(destination, 0.0)
        if not pause:
            log.warning("the outbox waits with what is for %r: %s", destination, error)
        self._pause[destination] = min(max(pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._until[destination] = time.monotonic() + self._pause[destination]

    def let_go(self, destination: str) -> None:
        if self._pause.pop(destination, 0.0):
            del self._until[destination]
            log.warning("the outbox sends to %r again", destination)
