"""Logs that the store fails, once for all parts of a worker that notice."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable

from headrace.core.display import length_text
from headrace.errors import StoreError, StoreUnavailable

log = logging.getLogger("headrace.worker")

_EVERY = 60.0
# After an outage each part may meet this many connections that broke in it, for this long.
_BROKEN = 3
_BROKEN_FOR = 60.0
_AWAY = ""


class StoreOutage:
    """Used by all services of a worker, and by its heartbeat's thread. A store that does not answer
    is logged when the first part notices, and when the last one is served again; meanwhile once a
    minute, and when it says itself why it is not ready. Any other trouble is logged once, with the
    part that has it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._troubles: dict[Hashable, tuple[str, str]] = {}
        """Of each part: what trouble it has, and how it says so."""
        self._away = False
        self._ended_at = float("-inf")
        self._met: Counter[Hashable] = Counter()
        """How many broken connections each part has met since the last outage."""
        self._since = 0.0
        self._said_at = 0.0
        self._said: set[str] = set()
        self.limit: float | None = None
        self.on_limit: Callable[[str], object] = _unheard
        """Called, on any thread, when the store has been away for longer than `limit` seconds."""

    def trouble(self, part: Hashable, complaint: str, error: StoreError) -> None:
        """`part` has failed; `complaint` says what that means, such as "the reader waits"."""
        text = str(error)
        kind = _AWAY if isinstance(error, StoreUnavailable) else text
        with self._lock:
            if kind == _AWAY and not self._away and self._is_left_over(part, error):
                return
            is_new = all(kind != known for known, _ in self._troubles.values())
            self._troubles[part] = kind, complaint
            if kind == _AWAY:
                self._say_away(text, answered=getattr(error, "answered", False))
            elif is_new:
                log.warning("%s: %s", complaint, text, extra={"error": text})

    def _is_left_over(self, part: Hashable, error: StoreError) -> bool:
        """Whether it shows only now that a connection broke in the outage before. If the store is
        away again, no new connection can be made either, and that is said."""
        if not getattr(error, "sent", False) or self._monotonic() - self._ended_at > _BROKEN_FOR:
            return False
        self._met[part] += 1
        return self._met[part] <= _BROKEN

    def answers(self, part: Hashable) -> None:
        """The store answers `part` again, if it was away. Other trouble, such as a store without
        room, lasts until `well`."""
        kind, _ = self._troubles.get(part, (None, ""))
        if kind == _AWAY:
            self.well(part)

    def well(self, part: Hashable) -> None:
        """`part` is served again."""
        if part not in self._troubles:
            return
        with self._lock:
            kind, complaint = self._troubles.pop(part)
            if any(kind == known for known, _ in self._troubles.values()):
                return
            seconds = self._monotonic() - self._since
            if kind == _AWAY:
                self._away, self._ended_at = False, self._monotonic()
                self._met.clear()
                said = "the store answers again, after %s"
                log.warning(said, length_text(seconds), extra={"seconds": round(seconds, 3)})
            else:
                log.warning("over: %s", complaint, extra={"error": kind})

    def leave(self, part: Hashable) -> None:
        """`part` has ended, and asks the store no more."""
        with self._lock:
            self._troubles.pop(part, None)

    def _say_away(self, text: str, *, answered: bool) -> None:
        now = self._monotonic()
        if self._away and self.limit is not None and now - self._since >= self.limit:
            self.on_limit(text)
        if not self._away:
            self._away, self._since = True, now
            self._said.clear()
            what = "the store does not answer, and the worker waits for it"
        elif now - self._said_at >= _EVERY or (answered and text not in self._said):
            what = f"the worker has waited for the store for {now - self._since:.0f} s"
        else:
            return
        self._said_at = now
        self._said.add(text)
        log.warning("%s: %s", what, text, extra={"error": text})


def _unheard(_: str) -> None: ...


def level_of(error: StoreError) -> int:
    """The level for what a part adds to the line about a store that does not answer."""
    return logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING
