"""Values in a store that are not what they should be: passed over, and named in the log once."""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger("headrace.store")

# A store full of them must not fill our memory, nor the log.
_MOST_NAMED = 1_000


class Oddities:
    """Odd values found so far. People should learn of each once, and none may keep the rest from
    being read."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def note(self, where: str | bytes, problem: str) -> None:
        """Log once that the value at `where`, a key or a table and row, is passed over."""
        name = readable(where) if isinstance(where, bytes) else where
        if name in self._named or len(self._named) >= _MOST_NAMED:
            return
        self._named.add(name)
        log.warning(
            "%s is not what it should be, and is passed over: %s; correct or delete it",
            *(name, problem),
            extra={"odd": name},
        )

    def texts(self, where: str, names: Iterable[bytes]) -> list[str]:
        """The names that are UTF-8."""
        found: list[str] = []
        for raw in names:
            try:
                found.append(raw.decode())
            except UnicodeDecodeError:
                self.note(where, f"{readable(raw)!r} is not UTF-8")
        return found


def readable(raw: bytes) -> str:
    """Bytes as people can read and type them; those that are UTF-8 as they are."""
    return raw.decode("utf-8", "backslashreplace")
